// Activation-aware scaling (AWQ: Lin et al. 2023). Column j of a matrix is multiplied by s[j] before rounding and its
// input divided by s[j]: columns with large inputs use more of the format's levels.
#pragma once

#include "quant/hessian.h"
#include "quant/registry.h"

#include <span>
#include <vector>

namespace ridge::quant {

struct AwqMatrix { // a sample of a matrix's rows
  Type type;
  std::vector<float> weights; // [rows][cols]
};

struct AwqScales {
  std::vector<float> scale; // [cols]; empty: no scaling is best
  double error, plain;      // output error of the sample with and without scaling
};

// The best s[j] = (mean square of input j)^(α/2), normalized, over a grid of α, for matrices with the same input.
// Columns with equal group[j] (from 0) share a scale; empty: one scale each.
AwqScales search_scales(std::span<const AwqMatrix> matrices, const Hessian& hessian, std::span<const int64_t> group);

} // namespace ridge::quant
