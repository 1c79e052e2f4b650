// Chooses each product's kernel: the way with the least expected time in candidates.cpp. `ridge bench --profile -v`
// shows all ways, `ridge bench --regret` measures them.
#pragma once

#include "core/executor.h"
#include "kernels/cuda/plan/chip.h"
#include "kernels/cuda/plan/plan.h"
#include "kernels/cuda/products/cuts.h"
#include "kernels/cuda/products/desc.h"

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::kernels::cuda {

struct PlanInputs;

// `tokens`: rows of the input, or slots of experts.
ProductDesc desc_of(const core::Program& program, const MatrixStep& m, int64_t tokens);

enum class ProductKernel : uint8_t {
  matvec,  // few tokens, or each choice of an expert
  tiles_8, // small_batch/batch.cuh
  tiles_16,
  tiles_32,
  dots,   // small_batch/expert_dots.cuh
  wide,   // small_batch/wide_batch.cuh
  gemm,   // gemm/gemm.cuh
  bytes,  // gemm/integer_product.cuh
  prompt, // gemm/prompt_product.h
};
inline constexpr size_t kWays = 9;
std::string_view name_of(ProductKernel way);
std::optional<ProductKernel> way_named(std::string_view name);
constexpr int tile_of(ProductKernel way) { // 0: none
  return way == ProductKernel::tiles_8 || way == ProductKernel::dots ? 8
         : way == ProductKernel::tiles_16                            ? 16
         : way == ProductKernel::tiles_32                            ? 32
                                                                     : 0;
}
constexpr bool is_tiled(ProductKernel way) {
  return way == ProductKernel::tiles_8 || way == ProductKernel::tiles_16 || way == ProductKernel::tiles_32;
}

// In batches up to this size values pass between running kernels, and all products are matvecs.
inline constexpr int64_t kDataflowTokens = 2;
inline constexpr int64_t kMaxTiledTokens = 96; // scratch limit of tiles_*

// Products that share one way: a common input, or a layer's expert matrices.
struct ProductGroup {
  std::vector<const MatrixStep*> products;
  int64_t rows = 0; // of activations; for experts, choices
  bool dataflow = false;
  bool after_attention = false; // attention can write f16 for it
};

struct Estimate {
  ProductKernel way;
  double microseconds;
};
struct ProductChoice {
  ProductKernel way = ProductKernel::matvec;
  std::vector<Estimate> estimates;
};

// Measured / expected time (`ridge bench --calibrate`), for one version of the costs.
inline constexpr int kCostsVersion = 3;
using WayFactors = std::array<double, kWays>;
WayFactors way_factors(const std::map<std::string, double>& by_name); // missing ways: 1; unknown names are ignored

// Ways to take where they fit, by names of ops without the layer ("attn_q attn_k attn_v"). "" matches all.
using ForcedWays = std::map<std::string, ProductKernel>;

ProductChoice choose(const PlanInputs& in, const ProductGroup& group,
                     std::optional<ProductKernel> forced = std::nullopt);

// Whether configuration and chip allow them, whatever the matrix.
bool has_tensor_products(const core::ExecutorConfig& config, const DeviceLimits& limits);
bool has_prompt_products(const core::ExecutorConfig& config, const DeviceLimits& limits);
bool has_prompt_attention(const core::ExecutorConfig& config, const DeviceLimits& limits);

// For experts by ProductKernel::wide. A tile has enough tokens that most experts need only one; heads have all tokens.
// The rows of all tiles include padding; 0 if there are too few choices.
int sorted_wide_tile(int64_t choices, int64_t experts, bool of_heads);
int64_t sorted_wide_rows(int64_t choices, int64_t experts, bool of_heads);

// For heads by ProductKernel::wide.
TileCut cut_heads(const ChipLimits& chip, const ProductDesc& product, int64_t heads);

// Whether a shared expert becomes one more choice instead of two or three kernels. Choices get equally many
// multiprocessors; false if that idles a sixth of those that worked before.
bool shared_expert_is_choice(const DeviceLimits& limits, int64_t rows, int64_t used);

} // namespace ridge::kernels::cuda
