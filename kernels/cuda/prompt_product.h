// out = x Wᵀ for prompts on Hopper. Some rows of the packed matrices are decoded once into f16 tiles in device memory,
// a bounded number of them that stays in the L2 cache where it can; then one kernel, the same for all formats,
// multiplies these tiles with wgmma. Decoding costs what writing 2 bytes per weight costs, once per batch of tokens.
//
// Operands are [columns / 64][rows][64] halves, each row of 128 bytes with its 16-byte pieces exchanged by
// piece ^= row % 8: the order in which wgmma reads a tile from shared memory, so that any number of neighbouring rows
// of 64 columns is one contiguous copy.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/gemm.h"

#include <span>

namespace ridge::kernels::cuda {

inline constexpr int kTileColumns = 64;   // of an operand
inline constexpr int kPromptTokens = 128; // x has a multiple of this many rows; what those past the end hold is free
inline constexpr int64_t kExpandedBytes = 128 << 20; // decoded weights at any time, unless 256 rows need more

inline int64_t tiles_of(int64_t cols) { return (cols + kTileColumns - 1) / kTileColumns; }

// Row r of a segment goes to row first + r * stride of the operand.
struct ExpandSegment {
  const uint8_t* weights;
  int rows, first;
};
struct ExpandArgs {
  int segments, cols, stride;
  int64_t row_bytes; // of the packed rows
  uint8_t* out;
  int out_rows; // of the operand
  ExpandSegment segment[3];
};

// Whether this device and this build have what it takes.
bool can_multiply_prompts(const Launch&);

// Bytes of scratch for the widest of matrices.
int64_t prompt_scratch_bytes(int64_t cols);

// Matrices of one format with a common input, and what decodes their rows.
struct PromptMatrices {
  GemmArgs args; // x is tiled (launch_to_half with tiled_rows)
  void (*expand)(const Launch&, const ExpandArgs&);
};
inline constexpr size_t kMostPromptMatrices = 3; // in all

// All of these have the same input, which is that of the first. With swiglu there is one pair, gate and up, and
// silu(gate) * up goes to segment 0's out. A residual belongs to the first matrix.
void launch_prompt_product(const Launch&, std::span<const PromptMatrices> matrices, bool swiglu, uint8_t* scratch,
                           int64_t scratch_bytes);

} // namespace ridge::kernels::cuda
