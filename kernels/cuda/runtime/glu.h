#pragma once

#include "core/gelu.h"

#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

namespace ridge::kernels::cuda {

// gate * sigmoid(gate * (linear + cubic * gate²)) * (x + shift); gate <= limit, |x| <= limit.
struct FusedGlu {
  float linear = 1, cubic = 0, limit = 0, shift = 0; // limit 0: none
  bool is_gelu = false;                              // rounds as core/gelu.h

#ifdef __CUDACC__
  __device__ __forceinline__ float operator()(float gate, float x) const {
    if (limit > 0) gate = fminf(gate, limit), x = fminf(fmaxf(x, -limit), limit);
    const bool is_identity = is_gelu && fabsf(gate) >= core::kGeluIsIdentity;
    const auto rounded = [&](float y) { return is_gelu ? __half2float(__float2half_rn(y)) : y; };
    const float y = rounded(gate);
    const float active = rounded(__fdividef(y, 1 + __expf(-y * (linear + cubic * y * y))));
    return (is_identity ? fmaxf(gate, 0) : active) * (x + shift);
  }
#endif
};

inline constexpr float kGeluLinear = 1.5957691216f, kGeluCubic = 0.044715f * kGeluLinear; // 2 sqrt(2 / pi)

} // namespace ridge::kernels::cuda
