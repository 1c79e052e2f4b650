#pragma once

#include "core/gelu.h"
#include "core/ops.h"

#include <cuda_fp16.h>

namespace ridge::kernels::cuda {

__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1, 1 + __expf(-x)); }
__device__ __forceinline__ float silu(float x) { return x * sigmoid(x); }

__device__ __forceinline__ float as_half(float x) { return __half2float(__float2half_rn(x)); }
__device__ __forceinline__ float gelu(float x) {
  if (fabsf(x) >= core::kGeluIsIdentity) return fmaxf(x, 0);
  x = as_half(x);
  return as_half(x * sigmoid(1.5957691216f * x * (1 + 0.044715f * x * x))); // 2 sqrt(2 / pi)
}

__device__ __forceinline__ float activated(const core::ActivationParams& params, float x) {
  switch (params.kind) {
  case core::Activation::identity: return params.alpha * x;
  case core::Activation::silu: return x * sigmoid(params.alpha * x);
  case core::Activation::sigmoid: return sigmoid(params.alpha * x);
  case core::Activation::relu: return x < 0 ? 0 : x;
  case core::Activation::relu_squared: return x < 0 ? 0 : x * x;
  case core::Activation::gelu: return gelu(x);
  case core::Activation::gelu_erf: return 0.5f * x * (1 + erff(x * 0.7071067812f));
  case core::Activation::soft_cap: return params.alpha * tanhf(x / params.alpha);
  case core::Activation::softplus: return fmaxf(x, 0) + log1pf(expf(-fabsf(x)));
  case core::Activation::root_sigmoid:
    return x == 0 ? 0.5f : sigmoid(copysignf(sqrtf(fmaxf(fabsf(x), core::kMinRooted)), x));
  case core::Activation::xielu:
    return (x > 0 ? params.alpha * x * x : params.alpha_negative * (expm1f(fminf(x, params.epsilon)) - x)) +
           params.beta * x;
  }
  return x;
}
__device__ __forceinline__ float activated(core::Activation kind, float x) {
  return activated(core::ActivationParams{kind}, x);
}

__device__ __forceinline__ float gated(const core::ActivationParams& params, float gate, float x) {
  const bool limited = params.limit > 0;
  if (limited) x = fminf(fmaxf(x, -params.limit), params.limit);
  if (limited && !params.limits_activated) gate = fminf(gate, params.limit);
  gate = activated(params, gate);
  if (limited && params.limits_activated) gate = fminf(gate, params.limit);
  return gate * (x + params.shift);
}

__device__ __forceinline__ float softplus(float x) { return x > 20 ? x : log1pf(expf(x)); }

} // namespace ridge::kernels::cuda
