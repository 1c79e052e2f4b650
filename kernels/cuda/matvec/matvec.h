// The arguments of a matvec launch.
#pragma once

#include "kernels/cuda/exchange/packets.h"
#include "kernels/cuda/products/cuts.h"
#include "kernels/cuda/router/route_args.h"
#include "kernels/cuda/runtime/glu.h"
#include "kernels/cuda/runtime/limits.h"
#include "kernels/cuda/runtime/timeline.h"

#include <cstdint>

namespace ridge::core {
struct AdapterUse;
}

namespace ridge::kernels::cuda {

struct MatvecSegment {
  const uint8_t* weights;
  int rows;
  float* out; // [tokens, out_stride]
  int64_t out_stride;
  const float* bias;  // [rows], for experts [experts][rows], or null
  int row_blocks = 0; // set by the launcher
};

struct ExpertPlaces {
  int64_t bytes = 0;             // of a matrix, if they are contiguous
  const int64_t* each = nullptr; // [experts] byte offsets, if they are not

#ifdef __CUDACC__
  __device__ __forceinline__ int64_t of(int expert) const { return each ? each[expert] : expert * bytes; }
#endif
};

struct MatvecArgs {
  const float* x; // [tokens, x_stride]
  int64_t x_stride;
  int tokens;
  int cols;
  int64_t row_bytes;

  const float* norm_weight = nullptr; // [cols] or null: RMS-norm x with this weight
  float norm_epsilon = 0;

  int segments = 1;
  MatvecSegment segment[kMaxSegments];
  bool gated = false; // segments are gate and up; the result goes to segment 0's out
  FusedGlu glu;

  const float* residual = nullptr; // added to segment 0's result
  int64_t residual_stride = 0;

  // With experts `tokens` counts slots, `slots` per token. Slot i, without shared experts, uses matrix ids[i], or
  // without ids its number. x has a row per token, or per slot if x_per_slot.
  const int32_t* ids = nullptr;
  ExpertPlaces experts;
  int slots = 1;
  bool x_per_slot = false;

  // If out is set, the last slot of each token is a shared expert.
  struct Shared {
    const uint8_t* weights[2];
    const float* x; // [tokens, x_stride]
    float* out;     // [tokens, out_stride of segment 0]
  } shared = {};

  PacketTargets packets = {}; // for a sum over ranks: results also go there, rows side by side

  // x, residual and ids hold sentinels until values arrive (ptx.cuh).
  bool dataflow_input = false;

  // Set by the launcher: row blocks of results per block at least; blocks with one more.
  int row_blocks_per_block = 0, blocks_with_one_more = 0;
  bool after_predecessor = false; // set by the launcher: starts after its predecessor ends
  Stamp* stamps = nullptr;        // set by the launcher

  bool has_slots() const { return ids || slots > 1; }
#ifdef __CUDACC__
  __device__ __forceinline__ int chosen_slots() const { return slots - (shared.out != nullptr); }
  __device__ __forceinline__ bool is_shared(int slot) const { return shared.out && slot == slots - 1; }
#endif
};

// LoRA adapters: B (scale * (A x)) is added to each segment's result (adapter_rows.cuh). Ranks are padded with zeros to
// multiples of 8, those of one segment behind another's.
struct AdapterArgs {
  const uint16_t* a = nullptr;       // f16 [padded][cols], times the norm's weights
  const uint16_t* b = nullptr;       // f16 [row blocks of all segments][rows][columns]
  const float* factors = nullptr;    // [padded], with the powers of two of A's rows and B's columns
  const int32_t* adapters = nullptr; // [padded]
  int padded = 0, columns = 0;       // columns: a gate's, then up's, otherwise of the largest segment
  int first[kMaxSegments] = {}, ranks[kMaxSegments] = {}; // of segments

  float* sums = nullptr; // [tokens][padded]: sentinels, until a block of the same kernel stores scale * (A x)
  const core::AdapterUse* uses = nullptr; // [streams][adapters]
  int stream_adapters = 0;
  const int32_t *positions = nullptr, *streams = nullptr;
  const int32_t* outputs = nullptr; // null: every token has a row

  AdapterCut cut; // set by the launcher
};
struct AdaptedProduct {
  MatvecArgs product;
  AdapterArgs adapter;
};

// A folded router beside a product with result y: scores = matrix [x, residual] + constant (router_scores.cuh), then
// the choice (expert_choice.cuh).
inline constexpr int kMaxFoldedExperts = 256; // two per block on 129 multiprocessors
struct RouterRows {
  const float* matrix;   // [experts][cols + width]
  const float* constant; // [experts] or null
  const float* bias;     // [experts] or null: added to scores / rms(y)
  bool choice_needs_y;   // the choice waits for y, since 1 / rms(y) may change it
  RouteArgs route;       // of scores without that factor and bias
  const float* gate;     // [width] or null: a gate's row times the norm's weights
  float* gate_out;       // [tokens] or null: the gate's product with y / rms(y)
  int width;             // a multiple of 4, as is cols
  float epsilon;
  int rows = 0, shared_offset = 0; // set by the launcher
};

} // namespace ridge::kernels::cuda
