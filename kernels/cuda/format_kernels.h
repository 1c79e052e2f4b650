// What the executor asks of a weight format: a table of launchers, one per format, filled from its header.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/matvec.h"
#include "quant/registry.h"

namespace ridge::kernels::cuda {

inline constexpr int kMaxMatvecTokens = 4; // rows of activations per pass over the weights

struct FormatKernels {
  quant::Type type;

  // Bytes of a row in device memory: what the file has, rounded up to 16 per 1024 weights.
  int64_t (*row_bytes)(int64_t cols);

  // Rows as in the file -> rows as kernels want them, both in device memory.
  void (*repack)(const Launch&, const uint8_t* from, int64_t from_row_bytes, uint8_t* to, int64_t cols, int64_t rows);

  // y = W x; `exact` without rounding the activations. Any number of tokens; the weights are read once per
  // kMaxMatvecTokens (fewer where the activations do not fit into shared memory).
  void (*matvec)(const Launch&, const MatvecArgs&, bool exact);

  // out[i] = row ids[i] as f32, [n, cols].
  void (*embed)(const Launch&, const uint8_t* weights, int64_t cols, const int32_t* ids, int n, float* out);

  // out = x Wᵀ with f16 activations.
  void (*gemm)(const Launch&, const GemmArgs&);
};

const FormatKernels& format_kernels(uint32_t type_id);

} // namespace ridge::kernels::cuda
