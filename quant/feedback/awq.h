// Activation-aware scaling (AWQ: Lin et al. 2023): multiplying column j by s[j] before rounding, and dividing its
// input, gives columns with large inputs more of the format's levels.
#pragma once

#include "quant/feedback/hessian.h"
#include "quant/registry.h"

#include <span>
#include <vector>

namespace ridge::quant {

struct AwqMatrix { // a sample of rows
  Type type;
  std::vector<float> weights; // [rows][cols]
};

struct AwqScales {
  std::vector<float> scale; // [cols]; empty: no scaling is best
  double error, plain;      // output error with and without
};

// The best s[j] = (mean square of input j)^(α/2), normalized, over a grid of α, for matrices with the same input.
// Columns with equal group[j] share a scale; empty: one scale each.
AwqScales search_scales(std::span<const AwqMatrix> matrices, const Hessian& hessian, std::span<const int64_t> group);

} // namespace ridge::quant
