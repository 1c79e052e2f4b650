// out = x Wᵀ for prompts on Hopper. Some rows of the packed matrices, a bounded number, are decoded once into f16 tiles
// in device memory; then one kernel, the same for all formats, multiplies these tiles with wgmma. Decoding costs what
// writing 2 bytes per weight costs, once per batch of tokens; it goes on in a stream of its own, in two buffers by
// turns, while the tensor cores are at what was decoded before.
//
// Operands are [columns / 64][rows][64] halves, each row of 128 bytes with its 16-byte pieces exchanged by
// piece ^= row % 8: the order in which wgmma reads a tile from shared memory, so that any number of neighbouring rows
// of 64 columns is one contiguous copy.
#pragma once

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/plan/scratch_sizes.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/glu.h"

#include <optional>
#include <span>

namespace ridge::kernels::cuda {

inline constexpr int kPromptTokens = 128; // x has a multiple of this many rows; what those past the end hold is free

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
  ExpandSegment segment[kMostSegments];
};

// Whether this device and this build have what it takes.
bool can_multiply_prompts(const Launch&);

// Where weights are decoded, and what keeps the two streams in step.
class PromptScratch {
 public:
  // For matrices of at most so many columns.
  explicit PromptScratch(int64_t cols);

  int64_t buffer_bytes() const { return static_cast<int64_t>(buffer_[0].bytes()); }

 private:
  friend class PromptProduct;
  DeviceMemory buffer_[2];
  Stream stream_;                    // in which weights are decoded
  Event decoded_[2], multiplied_[2]; // per buffer
  int next_ = 0;
};

// Matrices of one format with a common input, and what decodes their rows.
struct PromptMatrices {
  GemmArgs args; // x is tiled (HalfLayout::tiles)
  void (*expand)(const Launch&, const ExpandArgs&);
};
inline constexpr size_t kMostPromptMatrices = kMostSegments; // in all

// All of these have the same input, which is that of the first. With a gated unit there is one pair, gate and
// up, and what it makes of them goes to segment 0's out. A residual belongs to the first matrix.
void launch_prompt_product(const Launch&, std::span<const PromptMatrices> matrices, const std::optional<FusedGlu>& glu,
                           PromptScratch&);

} // namespace ridge::kernels::cuda
