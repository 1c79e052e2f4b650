// The activations of glu, activate and conv1d.
#pragma once

#include "core/ops.h"

#include <algorithm>
#include <cmath>

namespace ridge::tests {

inline double activation_of(core::Activation kind, double x) {
  switch (kind) {
  case core::Activation::identity: return x;
  case core::Activation::silu: return x / (1 + std::exp(-x));
  case core::Activation::sigmoid: return 1 / (1 + std::exp(-x));
  case core::Activation::relu_squared: return std::max(x, 0.0) * std::max(x, 0.0);
  }
  return NAN;
}

inline double softplus(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }

} // namespace ridge::tests
