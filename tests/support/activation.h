// Activations in double precision.
#pragma once

#include "core/gelu.h"
#include "core/half.h"
#include "core/ops.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ridge::tests {

inline double activation_of(const core::ActivationParams& p, double x) {
  const auto as_half = [](double e) { return core::f32_from_f16(core::f16_from_f32(static_cast<float>(e))); };
  const auto gelu = [](double e) {
    return e / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (e + 0.044715 * e * e * e)));
  };
  switch (p.kind) {
  case core::Activation::identity: return p.alpha * x;
  case core::Activation::silu: return x / (1 + std::exp(-p.alpha * x));
  case core::Activation::sigmoid: return 1 / (1 + std::exp(-p.alpha * x));
  case core::Activation::relu: return std::max(x, 0.0);
  case core::Activation::relu_squared: return std::max(x, 0.0) * std::max(x, 0.0);
  case core::Activation::gelu:
    return std::abs(x) >= core::kGeluIsIdentity ? std::max(x, 0.0) : as_half(gelu(as_half(x)));
  case core::Activation::gelu_erf: return x / 2 * (1 + std::erf(x / std::numbers::sqrt2));
  case core::Activation::soft_cap: return p.alpha * std::tanh(x / p.alpha);
  case core::Activation::softplus: return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
  case core::Activation::root_sigmoid: {
    const double root = std::sqrt(std::max(std::abs(x), static_cast<double>(core::kMinRooted)));
    return x == 0 ? 0.5 : 1 / (1 + std::exp(x > 0 ? -root : root));
  }
  case core::Activation::xielu:
    return p.beta * x +
           (x > 0 ? p.alpha * x * x : p.alpha_negative * (std::expm1(std::min(x, static_cast<double>(p.epsilon))) - x));
  }
  return NAN;
}
inline double activation_of(core::Activation kind, double x) { return activation_of(core::ActivationParams{kind}, x); }

inline double softplus(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }

} // namespace ridge::tests
