// Launchers of each weight format. can_* and cut_* follow no pointers in their arguments.
#pragma once

#include "kernels/cuda/gemm/expand.h"
#include "kernels/cuda/gemm/integer_product.h"
#include "kernels/cuda/matvec/matvec.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/small_batch/wide_batch.h"
#include "quant/registry.h"

namespace ridge::kernels::cuda {

inline constexpr int kMaxMatvecTokens = 4; // per pass over the weights

struct BatchCut {
  bool fits = false;
  bool split_columns = false; // split-K
  int left_ranges = 0;        // added by another kernel; 0: none
  int token_tiles = 0, row_tiles = 0;
  int log2_parts = 0;
};

struct FormatKernels {
  quant::Type type;

  // The file's, rounded up to 16 per 1024 weights.
  int64_t (*row_bytes)(int64_t cols);
  int64_t (*matrix_bytes)(int64_t rows, int64_t row_bytes); // padded to row blocks (layout.cuh)

  // From the file's rows, starting at first_row, in device memory, to contiguous matrices of matrix_rows each.
  void (*repack)(const Launch&, const uint8_t* from, int64_t from_row_bytes, uint8_t* to, int64_t cols,
                 int64_t first_row, int64_t rows, int64_t matrix_rows);

  // y = W x; `exact`: without rounding activations. Reads the weights once per kMaxMatvecTokens tokens, or fewer if
  // shared memory is small.
  void (*matvec)(const Launch&, const MatvecArgs&, bool exact);

  // Two products of one or two tokens with the same input and different formats, in one launch.
  bool (*can_pair)(const ChipLimits&, const MatvecArgs&, const MatvecArgs& other, quant::Type other_type);
  void (*matvec_pair)(const Launch&, const MatvecArgs&, const MatvecArgs& other, quant::Type other_type);

  // The same for one or two tokens with LoRA adapters.
  bool (*can_adapt)(const ChipLimits&, const MatvecArgs&, const AdapterArgs&);
  void (*matvec_adapted)(const Launch&, const MatvecArgs&, const AdapterArgs&);
  bool (*can_adapt_pair)(const ChipLimits&, const AdaptedProduct&, const AdaptedProduct& other, quant::Type other_type);
  void (*matvec_adapted_pair)(const Launch&, const AdaptedProduct&, const AdaptedProduct& other,
                              quant::Type other_type);

  // out[i] = row ids[i] as f32, [n, cols]; row 0 for negative ids.
  void (*embed)(const Launch&, const uint8_t* weights, int64_t cols, const int32_t* ids, int n, float* out);

  // out = x Wᵀ with f16 activations, for prompts, on tensor cores.
  void (*gemm)(const Launch&, const GemmArgs&);

  // With activations as bytes (integer_product.cuh), from sm_80 on; null: not for this format.
  void (*integer_product)(const Launch&, const IntegerProductArgs&);

  // Small batches and experts, in tiles of 8, 16 or 32 tokens. Siblings are not split by columns.
  BatchCut (*cut_batch)(const ChipLimits&, const BatchArgs&, int tile_tokens);
  void (*batch)(const Launch&, const BatchArgs&, int tile_tokens);

  // In tiles of wide_tile_rows.
  void (*wide_batch)(const Launch&, const WideArgs&, int tile_tokens);

  // At most 8 tokens per expert.
  bool (*can_dot_experts)(const ChipLimits&, const BatchArgs&);
  void (*expert_dots)(const Launch&, const BatchArgs&);

  // Operands of prompt products.
  void (*expand)(const Launch&, const ExpandArgs&);

  // matvec with a folded router's scores, for one or two tokens.
  bool (*can_take_router)(const ChipLimits&, const MatvecArgs&, const RouterRows&);
  void (*matvec_router)(const Launch&, const MatvecArgs&, const RouterRows&);
};

const FormatKernels& format_kernels(uint32_t type_id);

} // namespace ridge::kernels::cuda
