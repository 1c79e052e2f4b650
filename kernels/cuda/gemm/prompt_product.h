// out = x Wᵀ for prompts on Hopper. Some rows of the packed matrices, a bounded number, are decoded once into f16 tiles
// in device memory; then one kernel, the same for all formats, multiplies these tiles with wgmma. Decoding costs what
// writing 2 bytes per weight costs, once per batch of tokens; it goes on in a stream of its own, in two buffers by
// turns, while the tensor cores are at what was decoded before.
//
// Operands are [columns / 64][rows][64] halves, each row of 128 bytes with its 16-byte pieces exchanged by
// piece ^= row % 8: the order in which wgmma reads a tile from shared memory, so that any number of neighbouring rows
// of 64 columns is one contiguous copy.
#pragma once

#include "core/host_device/round_up.h"
#include "kernels/cuda/gemm/expand.h"
#include "kernels/cuda/gemm/product_bound.h"
#include "kernels/cuda/products/gemm.h"
#include "kernels/cuda/products/scratch_sizes.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/glu.h"

#include <optional>
#include <span>

namespace ridge::kernels::cuda {

// A value as the product behind it reads it: f16 tiles, with its rows' exponents (gemm.h) behind them. It lies in the
// memory of the value's floats.
struct TiledHalf {
  uint16_t* tiles = nullptr;
  int8_t* exponents = nullptr;
};
inline TiledHalf tiled_half(float* value, int64_t rows, int64_t cols) {
  auto* tiles = reinterpret_cast<uint16_t*>(value);
  return {tiles, reinterpret_cast<int8_t*>(tiles + tiled_half_elements(rows, cols))};
}

// Elements of rows that were converted with half_exponent() are smaller than 2 to the first of these, others than 2 to
// the second.
inline constexpr int kLog2LargestConverted = 10, kLog2LargestHalf = 16;

// What becomes of a product's sums.
struct PromptResult {
  int log2_largest = kLog2LargestHalf; // no element of the input is as large as 2 to this, beside its row's exponent
  bool gated = false;          // there is one pair of matrices, gate and up, and what `glu` makes of them is the result
  std::optional<FusedGlu> glu; // not gated: an activation, of `gate`; x is 1
  TiledHalf half;              // where the result goes, one segment's, instead of `out`; or null
  const ProductBound* bounds[2] = {}; // in device memory, with `half`: of the matrix, or of gate and up
};

// Whether this device and this build have what it takes.
bool can_multiply_prompts(const Launch&);

// Where weights are decoded, and what keeps the two streams in step.
class PromptScratch {
 public:
  // For matrices of at most so many columns.
  explicit PromptScratch(int64_t cols);

  int64_t buffer_bytes() const { return static_cast<int64_t>(buffer_[0].bytes()); }
  uint8_t* buffer(int i) const { return buffer_[i].as(); } // while no product runs

 private:
  friend class PromptProduct;
  DeviceMemory buffer_[2];
  Stream stream_;                    // in which weights are decoded
  Event decoded_[2], multiplied_[2]; // per buffer
  bool in_launch_stream_[2] = {};    // it was last used without the second stream, and no event says so
  int next_ = 0;
};

// Matrices of one format with a common input, and what decodes their rows.
struct PromptMatrices {
  GemmArgs args; // x is tiled (HalfLayout::tiles)
  void (*expand)(const Launch&, const ExpandArgs&);
};
inline constexpr size_t kMostPromptMatrices = kMostSegments; // in all

// All of these have the same input, which is that of the first. A residual belongs to the first matrix. What is gated
// goes to segment 0's out.
void launch_prompt_product(const Launch&, std::span<const PromptMatrices> matrices, const PromptResult&,
                           PromptScratch&);

// Computes the bound of the first segment's matrix.
void launch_product_bound(const Launch&, const PromptMatrices& matrix, PromptScratch&, ProductBound* bound);

} // namespace ridge::kernels::cuda
