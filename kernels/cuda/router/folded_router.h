// A router whose scores do not wait for its input y = x + O a + b. With norm weights w and R' = R diag(w):
//
//   rms(y) R norm(y) = R' x + (R' O) a + R' b
//
// R' O is computed once, so that the kernel of the product with O also scores (matvec/router_scores.cuh) and chooses
// (matvec/expert_choice.cuh) experts. The factor rms(y) does not change which scores are largest; but biases and
// sigmoids apply behind it, and then the choice waits for y.
#pragma once

#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {

struct FoldedRouter {
  float* matrix = nullptr;   // [experts][cols + width]: R' O and R'; cols: of O
  float* constant = nullptr; // [experts]: R' b, or null
  float* gate = nullptr;     // [width]: a gate's row times w, or null
};

// fold_norm makes all but R' O (`gate` holds the raw row), then fold_rows adds `count` rows `o` [count][cols]. `r`:
// [experts][width].
struct FoldedRows {
  const float *o, *r, *norm, *bias; // norm: [width]; bias: [width] or null
  int experts, cols, width, first, count;
};
void fold_norm(const Launch&, const FoldedRouter&, const FoldedRows&);
void fold_rows(const Launch&, const FoldedRouter&, const FoldedRows&);

} // namespace ridge::kernels::cuda
