// A router whose scores do not wait for its input.
//
// Behind attention a layer computes y = x + O a + b, and of its experts scores R norm(y). A norm with weights w is
// w y / rms(y), so with R' = R diag(w)
//
//   rms(y) R norm(y) = R' x + (R' O) a + R' b
//
// R' O is made once, when a model is loaded. Then the scores, but for the factor, are there even before the product
// with O is: its kernel makes them, too (matvec/router_scores.cuh), and a block of it chooses experts and makes shares
// (matvec/expert_choice.cuh). Where the largest scores choose, the factor changes nothing, and experts are chosen as
// soon as scores are there. Biases and a sigmoid come behind the factor: with these experts are chosen when y is there.
#pragma once

#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {

// One layer's router, in device memory.
struct FoldedRouter {
  float* matrix = nullptr;   // [experts][cols + width]: R' O and R'. `cols`: of O, `width`: of y
  float* constant = nullptr; // [experts]: R' b; null where there is no b
  float* gate = nullptr;     // [width]: a gate's row times w; null where none shares the router's input
};

// Adds rows [first, first + count) of O, `o` [count][cols], to `router`: its columns of R' O. Before the first of them
// fold_norm makes the rest of it, of which `gate` holds the gate's row as it is in the model. `r`: [experts][width].
struct FoldedRows {
  const float *o, *r, *norm, *bias; // norm: [width]; bias: [width] or null
  int experts, cols, width, first, count;
};
void fold_norm(const Launch&, const FoldedRouter&, const FoldedRows&);
void fold_rows(const Launch&, const FoldedRouter&, const FoldedRows&);

} // namespace ridge::kernels::cuda
