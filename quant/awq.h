// Activation-aware scaling (AWQ: Lin et al. 2023): column j of a matrix is multiplied by s[j] before it is rounded, and
// its input divided by s[j], which changes only the rounding errors. Columns with large inputs then use more of the
// format's levels.
#pragma once

#include "quant/hessian.h"
#include "quant/registry.h"

#include <span>
#include <vector>

namespace ridge::quant {

struct AwqMatrix { // a sample of the rows of a matrix
  Type type;
  std::vector<float> weights; // [rows][cols]
};

struct AwqScales {
  std::vector<float> scale; // [cols]; empty: no scaling is best
  double error, plain;      // of the sample's outputs, with and without
};

// The best s[j] = (mean square of input j)^(α/2), normalized, over a grid of α, for matrices that share the input.
// Columns of the same group[j] (from 0 up) get the same scale; empty: each its own.
AwqScales search_scales(std::span<const AwqMatrix> matrices, const Hessian& hessian, std::span<const int64_t> group);

} // namespace ridge::quant
