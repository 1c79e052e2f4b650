// The arguments of a matvec launch: y = W x for a few rows of activations, with what fuses into it.
#pragma once

#include "kernels/cuda/router/route_args.h"
#include "kernels/cuda/runtime/glu.h"
#include "kernels/cuda/runtime/limits.h"
#include "kernels/cuda/runtime/timeline.h"

#include <cstdint>

namespace ridge::kernels::cuda {

struct MatvecSegment {
  const uint8_t* weights;
  int rows;
  float* out;         // [tokens, out_stride]
  int64_t out_stride; // elements
  const float* bias;  // [rows], of experts [experts][rows], or null
  int row_blocks = 0; // the launcher fills this in
};

// Where the matrices of experts begin: in bytes behind the first expert's.
struct ExpertPlaces {
  int64_t bytes = 0;             // of a matrix, where they lie behind one another
  const int64_t* each = nullptr; // [experts], where they do not

#ifdef __CUDACC__
  __device__ __forceinline__ int64_t of(int expert) const { return each ? each[expert] : expert * bytes; }
#endif
};

struct MatvecArgs {
  const float* x; // [tokens, x_stride]
  int64_t x_stride;
  int tokens;
  int cols;
  int64_t row_bytes; // of the device layout

  const float* norm_weight = nullptr; // [cols]: x is RMS-normed and multiplied by this on the way in
  float norm_epsilon = 0;

  int segments = 1;
  MatvecSegment segment[kMostSegments];
  bool gated = false; // segment 0 is the gate, segment 1 up; what `glu` makes of them goes to segment 0's out
  FusedGlu glu;

  const float* residual = nullptr; // [tokens, residual_stride], added to segment 0's result
  int64_t residual_stride = 0;

  // Experts: each token has `slots`, which `tokens` counts one by one. A slot's matrix is number ids[i], or without ids
  // that of the slot; i counts all slots but shared experts. x has a row per token, or per slot where x_per_slot.
  const int32_t* ids = nullptr;
  ExpertPlaces experts;
  int slots = 1;
  bool x_per_slot = false;

  // Where this has an output, the last slot of each token is a shared expert of the same size.
  struct Shared {
    const uint8_t* weights[2];
    const float* x; // [tokens, x_stride]
    float* out;     // [tokens, out_stride of segment 0]
  } shared = {};

  // Dataflow sync (ptx.cuh): x, residual and ids hold sentinels until their values arrive, while the kernel runs.
  bool dataflow_input = false;

  // The launcher fills these in: row blocks of results, of all segments; how many a block has at least; and how many
  // blocks have one more.
  int result_row_blocks = 0, row_blocks_per_block = 0, fuller_blocks = 0;
  bool after_predecessor = false; // starts when its predecessor is done; the launcher fills this in
  Stamp* stamps = nullptr;        // likewise

  bool has_slots() const { return ids || slots > 1; }
#ifdef __CUDACC__
  __device__ __forceinline__ int chosen_slots() const { return slots - (shared.out != nullptr); }
  __device__ __forceinline__ bool is_shared(int slot) const { return shared.out && slot == slots - 1; }
#endif
};

// What is made beside a product whose result is y: for each token scores = matrix [x, residual] + constant
// (router_scores.cuh), and the choice of its experts (expert_choice.cuh).
inline constexpr int kMostRouterRows = 2;      // of a block
inline constexpr int kMostFoldedExperts = 256; // two for each block on a chip of 129 multiprocessors
struct RouterRows {
  const float* matrix;             // [experts][cols + width]
  const float* constant;           // [experts] or null
  const float* bias;               // [experts] or null: the router's, added to scores / rms(y)
  bool needs_y;                    // experts are chosen when y is there, since 1 / rms(y) may change the choice
  RouteArgs route;                 // whose scores these are, but for that factor and bias
  const float* gate;               // [width]: a gate's row times the norm's weights,
  float* gate_out;                 // [tokens]: and its product with y / rms(y); both null where there is no gate
  int width;                       // of y and the residual; it and cols are multiples of 4
  float epsilon;                   // of norm(y)
  int rows = 0, shared_offset = 0; // of a block; of its shared memory. The launcher fills these in
};

} // namespace ridge::kernels::cuda
