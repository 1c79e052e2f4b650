// out = x Wᵀ for prompts on Hopper. Packed rows are decoded once per batch into f16 tiles, in a second stream and two
// alternating buffers; one wgmma kernel for all formats multiplies the previous ones.
//
// Operands are [columns / 64][rows][64] halves with 16-byte pieces permuted by piece ^= row % 8, as wgmma reads shared
// memory; neighbouring rows are one contiguous copy.
#pragma once

#include "core/host_device/round_up.h"
#include "kernels/cuda/gemm/expand.h"
#include "kernels/cuda/gemm/product_bound.h"
#include "kernels/cuda/gemm/prompt_adapters.h"
#include "kernels/cuda/products/gemm.h"
#include "kernels/cuda/products/scratch_sizes.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/glu.h"

#include <compare>
#include <map>
#include <optional>
#include <span>

namespace ridge::kernels::cuda {

// f16 tiles with the rows' exponents (gemm.h), in the memory of the value's floats.
struct TiledHalf {
  uint16_t* tiles = nullptr;
  int8_t* exponents = nullptr;
};
inline TiledHalf tiled_half(float* value, int64_t rows, int64_t cols) {
  auto* tiles = reinterpret_cast<uint16_t*>(value);
  return {tiles, reinterpret_cast<int8_t*>(tiles + tiled_half_elements(rows, cols))};
}

// log2 bounds of elements converted with half_exponent(), and of others.
inline constexpr int kLog2LargestConverted = 10, kLog2LargestHalf = 16;

struct SumMail; // exchange/sum_mail.h

struct PromptResult {
  int log2_largest = kLog2LargestHalf; // bounds the input's elements, before exponents
  bool gated = false;
  std::optional<FusedGlu> glu;         // if not gated: an activation of `gate`; x is 1
  TiledHalf half;                      // destination, for one segment, instead of `out`; or null
  const ProductBound* bounds[2] = {};  // with `half`: of the matrix, or gate and up
  const uint16_t* adapted_x = nullptr; // more columns of x (prompt_adapters.h)
  int adapted_columns = 0;
};

bool can_multiply_prompts(const Launch&);

class PromptScratch {
 public:
  // `kept_bytes` of weights stay decoded after their first use, as long as the GPU has room to spare.
  PromptScratch(int64_t cols, int64_t kept_bytes);

  int64_t buffer_bytes() const { return static_cast<int64_t>(buffer_[0].bytes()); }
  uint8_t* buffer(int i) const { return buffer_[i].as(); } // only while no product runs

 private:
  friend class PromptProduct;
  struct Kept {
    DeviceMemory operand;
    bool is_decoded = false;
  };
  struct KeptKey {
    const uint8_t* weights; // of the first matrix
    int64_t bytes;
    int tile_rows;
    auto operator<=>(const KeptKey&) const = default;
  };
  Kept* keep(const KeptKey&); // null: decode it each time

  DeviceMemory buffer_[2];
  Stream stream_;
  Event decoded_[2], multiplied_[2];
  bool in_launch_stream_[2] = {}; // last used without the second stream, so no event records it
  int next_ = 0;
  int64_t may_keep_bytes_;
  std::map<KeptKey, Kept> kept_;
};

struct PromptMatrices {
  GemmArgs args; // x is HalfLayout::tiles
  void (*expand)(const Launch&, const ExpandArgs&);
  const PromptAdapter* adapter = nullptr;
};

// All use the first one's input. A residual belongs to the first matrix; a gated result goes to segment 0's out.
void launch_prompt_product(const Launch&, std::span<const PromptMatrices> matrices, const PromptResult&,
                           PromptScratch&);
// Sends its results: one matrix of one segment.
void launch_prompt_product(const Launch&, const PromptMatrices& matrix, PromptScratch&, const SumMail& mail);

void launch_product_bound(const Launch&, const PromptMatrices& matrix, PromptScratch&, ProductBound* bound);

} // namespace ridge::kernels::cuda
