// What the executor asks of a weight format: a table of launchers, one per format, filled from its header.
#pragma once

#include "kernels/cuda/gemm/expand.h"
#include "kernels/cuda/gemm/integer_product.h"
#include "kernels/cuda/matvec/matvec.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/small_batch/wide_batch.h"
#include "quant/registry.h"

namespace ridge::kernels::cuda {

inline constexpr int kMaxMatvecTokens = 4; // rows of activations per pass over the weights

struct BatchCut {
  bool fits = false;
  bool split_columns = false; // into ranges, whose sums are added up through memory
  int left_ranges = 0;        // that another kernel adds up; 0: none does
  int token_tiles = 0, row_tiles = 0;
  int log2_parts = 0; // of a wide batch
};

struct FormatKernels {
  quant::Type type;

  // Bytes of a row in device memory: what the file has, rounded up to 16 per 1024 weights.
  int64_t (*row_bytes)(int64_t cols);
  int64_t (*matrix_bytes)(int64_t rows, int64_t row_bytes); // rows are padded to whole row blocks (layout.cuh)

  // Rows as in the file, from row first_row of all on -> as kernels want them, both in device memory. `to` is where the
  // first of matrices of matrix_rows each goes.
  void (*repack)(const Launch&, const uint8_t* from, int64_t from_row_bytes, uint8_t* to, int64_t cols,
                 int64_t first_row, int64_t rows, int64_t matrix_rows);

  // y = W x; `exact` without rounding the activations. Any number of tokens; the weights are read once per
  // kMaxMatvecTokens (fewer where the activations do not fit into shared memory).
  void (*matvec)(const Launch&, const MatvecArgs&, bool exact);

  // The same for one token and two steps with the same input, the second of another format, in one launch; and whether
  // there is such a kernel for these two formats and shapes. Asking follows no pointers.
  bool (*can_pair)(const ChipLimits&, const MatvecArgs&, const MatvecArgs& other, quant::Type other_type);
  void (*matvec_pair)(const Launch&, const MatvecArgs&, const MatvecArgs& other, quant::Type other_type);

  // out[i] = row ids[i] as f32, [n, cols]; row 0 for a number below 0.
  void (*embed)(const Launch&, const uint8_t* weights, int64_t cols, const int32_t* ids, int n, float* out);

  // out = x Wᵀ with f16 activations, for prompts, on any chip with tensor cores.
  void (*gemm)(const Launch&, const GemmArgs&);

  // The same with activations as bytes (integer_product.cuh), from sm_80 on; null: not for this format.
  void (*integer_product)(const Launch&, const IntegerProductArgs&);

  // The same for small batches and for experts, in tiles of 8, 16 or 32 tokens; and whether shared memory is large
  // enough for such tiles, and how the work is cut up. Asking follows no pointers. Siblings are not split
  // by columns.
  BatchCut (*cut_batch)(const ChipLimits&, const BatchArgs&, int tile_tokens);
  void (*batch)(const Launch&, const BatchArgs&, int tile_tokens);

  // The same on Hopper for tiles of 32 to 256 tokens (wide_tile_rows; wide_batch.cuh), cut up as args say.
  void (*wide_batch)(const Launch&, const WideArgs&, int tile_tokens);

  // The same with integers for experts that at most 8 tokens chose, in tiles of as many (expert_dots.cuh), where there
  // is such a product for the format and room for it. Asking follows no pointers.
  bool (*can_dot_experts)(const ChipLimits&, const BatchArgs&);
  void (*expert_dots)(const Launch&, const BatchArgs&);

  // Rows as operands of a prompt's product.
  void (*expand)(const Launch&, const ExpandArgs&);

  // matvec with scores of a folded router, for one or two tokens; and whether there is such a kernel for this format
  // and shape. Asking follows no pointers.
  bool (*can_take_router)(const ChipLimits&, const MatvecArgs&, const RouterRows&);
  void (*matvec_router)(const Launch&, const MatvecArgs&, const RouterRows&);
};

const FormatKernels& format_kernels(uint32_t type_id);

} // namespace ridge::kernels::cuda
