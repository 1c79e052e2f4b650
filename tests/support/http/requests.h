// Engine requests.
#pragma once

#include "engine/sequences/sequence.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ridge::tests {

inline engine::SequenceRequest request_of(std::span<const int32_t> prompt, int64_t limit,
                                          const core::SamplerParams& sampling = {.temp = 0, .bias = {}}) {
  engine::SequenceRequest request;
  request.prompt.assign(prompt.begin(), prompt.end());
  request.sampling = sampling;
  request.limit = limit;
  return request;
}

} // namespace ridge::tests
