// The activations of glu, activate and conv1d.
#pragma once

#include "core/ops.h"

namespace ridge::kernels::cuda {

__device__ __forceinline__ float sigmoid(float x) { return 1 / (1 + __expf(-x)); }

__device__ __forceinline__ float activated(core::Activation kind, float x) {
  switch (kind) {
  case core::Activation::identity: return x;
  case core::Activation::silu: return x * sigmoid(x);
  case core::Activation::sigmoid: return sigmoid(x);
  case core::Activation::relu_squared: return x < 0 ? 0 : x * x;
  }
  return x;
}

__device__ __forceinline__ float softplus(float x) { return x > 20 ? x : log1pf(expf(x)); }

} // namespace ridge::kernels::cuda
