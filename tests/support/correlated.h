// Weights and inputs for calibration.
#pragma once

#include "quant/feedback/gptq.h"
#include "quant/registry.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace ridge::tests {

inline std::vector<float> correlated_inputs(std::mt19937_64& random, int64_t count, int64_t cols) {
  std::normal_distribution<float> normal;
  std::vector<float> mixing(static_cast<size_t>(cols * 8)), size(static_cast<size_t>(cols));
  for (float& m : mixing) m = normal(random);
  for (float& s : size) s = std::exp(normal(random));
  std::vector<float> x(static_cast<size_t>(count * cols));
  for (int64_t i = 0; i < count; ++i) {
    float hidden[8];
    for (float& h : hidden) h = normal(random);
    for (int64_t j = 0; j < cols; ++j) {
      float sum = 0.3f * normal(random);
      for (int k = 0; k < 8; ++k) sum += hidden[k] * mixing[j * 8 + k];
      x[i * cols + j] = sum * size[j];
    }
  }
  return x;
}

inline std::vector<float> random_weights(std::mt19937_64& random, int64_t count) {
  std::normal_distribution<float> normal(0, 0.05f);
  std::vector<float> w(static_cast<size_t>(count));
  for (float& v : w) v = normal(random);
  return w;
}

inline double loss(const quant::Hessian& hessian, quant::Type type, const std::vector<float>& weights,
                   const std::vector<std::byte>& packed) {
  std::vector<float> decoded(weights.size());
  quant::format(type).decode(packed.data(), std::ssize(weights), decoded.data());
  for (size_t i = 0; i < decoded.size(); ++i) decoded[i] -= weights[i];
  return hessian.output_error(decoded);
}

} // namespace ridge::tests
