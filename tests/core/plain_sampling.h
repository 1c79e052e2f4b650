// Sampling without filters.
#pragma once

#include "core/sampler.h"

namespace ridge::tests {

inline core::SamplerParams plain_sampling(int64_t seed = 1) {
  core::SamplerParams params;
  params.temp = 1.0f;
  params.top_k = 0;
  params.top_p = 1.0f;
  params.min_p = 0.0f;
  params.seed = seed;
  return params;
}

} // namespace ridge::tests
