// Launchers of each weight format.
#pragma once

#include "kernels/cuda/gemm/expand.h"
#include "kernels/cuda/gemm/integer_product.h"
#include "kernels/cuda/matvec/matvec.h"
#include "kernels/cuda/small_batch/batch.h"

namespace ridge::kernels::cuda {

struct FormatKernels {
  FormatNumbers numbers;

  // From the file's rows, starting at first_row, in device memory, to contiguous matrices of matrix_rows each.
  void (*repack)(const Launch&, const uint8_t* from, int64_t from_row_bytes, uint8_t* to, int64_t cols,
                 int64_t first_row, int64_t rows, int64_t matrix_rows);

  // y = W x, by one of the ways of cuts.h.
  void (*matvec)(const Launch&, const MatvecArgs&, const MatvecCut&);
  void (*matvec_pair)(const Launch&, const MatvecArgs&, const MatvecArgs& other, quant::Type other_type,
                      const PairCut&);
  void (*matvec_router)(const Launch&, MatvecArgs, RouterRows, const RouterCut&);

  // The same for one or two tokens with LoRA adapters.
  void (*matvec_adapted)(const Launch&, MatvecArgs, AdapterArgs, const AdaptedCut&);
  void (*matvec_adapted_pair)(const Launch&, const AdaptedProduct&, const AdaptedProduct& other, quant::Type other_type,
                              const PairCut&);

  // out[i] = row ids[i] as f32, [n, cols]; row 0 for negative ids.
  void (*embed)(const Launch&, const uint8_t* weights, int64_t cols, const int32_t* ids, int n, float* out);

  // out = x Wᵀ with f16 activations, for prompts, on tensor cores.
  void (*gemm)(const Launch&, const GemmArgs&);

  // With activations as bytes (integer_product.cuh), from sm_80 on.
  void (*integer_product)(const Launch&, const IntegerProductArgs&);

  // Small batches and experts, in tiles of 8, 16 or 32 tokens; of wide_tile_rows; of at most 8 per expert.
  void (*batch)(const Launch&, BatchArgs, int tile_tokens, const TileCut&);
  void (*wide_batch)(const Launch&, const BatchArgs&, int tile_tokens, const TileCut&);
  void (*expert_dots)(const Launch&, const BatchArgs&, const DotsCut&);

  // Operands of prompt products.
  void (*expand)(const Launch&, const ExpandArgs&);
};

const FormatKernels& format_kernels(uint32_t type_id);

} // namespace ridge::kernels::cuda
