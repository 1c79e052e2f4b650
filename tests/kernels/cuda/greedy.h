// Greedy decoding on the device.
#pragma once

#include "core/executor.h"
#include "core/sampler.h"

#include <doctest/doctest.h>

#include <vector>

namespace ridge::tests {

inline std::vector<int32_t> greedy_tokens(core::Executor& executor, int64_t vocab, int32_t token, int32_t stream,
                                          int64_t count) {
  const int32_t zero = 0;
  executor.forward({{&token, 1}, {&zero, 1}, {&stream, 1}, {&zero, 1}});
  core::SamplerParams greedy;
  greedy.temp = 0;
  REQUIRE(executor.start_decoding(core::Sampler(greedy, vocab), 1, stream));
  std::vector<int32_t> tokens(count);
  for (int64_t i = 0; i < count; ++i) tokens[i] = executor.next_token(i + 1 < count);
  return tokens;
}

} // namespace ridge::tests
