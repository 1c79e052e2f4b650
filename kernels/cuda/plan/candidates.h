// Which kernel multiplies a matrix, and why. Every way to multiply is a row of candidates.cpp: where it fits, and how
// many microseconds it is expected to take on this chip. The cheapest one is taken. `ridge bench --profile -v` shows
// all of them, `ridge bench --regret` measures them.
#pragma once

#include "core/executor.h"
#include "kernels/cuda/plan/chip.h"
#include "kernels/cuda/plan/plan.h"

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::kernels::cuda {

struct PlanInputs;

enum class Way : uint8_t {
  matvec,  // a pass over the weights for few tokens, or for each choice of an expert
  tiles_8, // small_batch/batch.cuh in tiles of so many tokens; experts' choices are sorted by expert
  tiles_16,
  tiles_32,
  dots,   // small_batch/expert_dots.cuh: sorted experts of few tokens, by integers
  wide,   // small_batch/wide_batch.cuh: wgmma on weights that are decoded into registers
  gemm,   // gemm/gemm.cuh: mma on weights that are decoded into shared memory
  bytes,  // gemm/integer_product.cuh: mma on bytes
  prompt, // gemm/prompt_product.h: wgmma on weights that were decoded into device memory
};
inline constexpr size_t kWays = 9;
std::string_view name_of(Way way);
std::optional<Way> way_named(std::string_view name); // as name_of() has it
constexpr int tile_of(Way way) {                     // tokens; 0: these have none
  return way == Way::tiles_8 || way == Way::dots ? 8 : way == Way::tiles_16 ? 16 : way == Way::tiles_32 ? 32 : 0;
}
constexpr bool is_tiled(Way way) { return way == Way::tiles_8 || way == Way::tiles_16 || way == Way::tiles_32; }

// Values of batches up to this size pass between kernels that run at once, all of which are matvecs then.
inline constexpr int64_t kDataflowTokens = 2;
inline constexpr int64_t kMostTiledTokens = 96; // that the scratch memory of tiles_8 … tiles_32 is made for

// Products that one way is chosen for: matrices with a common input, or all matrices of a layer's experts.
struct ProductGroup {
  std::vector<const MatrixStep*> products;
  int64_t rows = 0;             // of activations; of experts, choices: tokens x experts of each
  bool dataflow = false;        // the batch's values pass between running kernels
  bool after_attention = false; // which may write its result as f16
};

struct Estimate {
  Way way;
  double microseconds;
};
struct ProductChoice {
  Way way = Way::matvec;
  std::vector<Estimate> estimates; // of those that fit, in the order of the table
};

// What each way takes on the GPU at hand, in units of what it is expected to take (`ridge bench --calibrate`). The
// version is that of the expectations: factors for others mean nothing.
inline constexpr int kCostsVersion = 1;
using WayFactors = std::array<double, kWays>;
WayFactors way_factors(const std::map<std::string, double>& by_name); // 1 where a way has none; other names do nothing

// By ops' names without the layer, "attn_q attn_k attn_v": the way to take where it fits. The name "" stands for all.
using ForcedWays = std::map<std::string, Way>;

ProductChoice choose(const PlanInputs& in, const ProductGroup& group, std::optional<Way> forced = std::nullopt);

// What a configuration has, whatever the matrix.
bool has_tensor_products(const core::ExecutorConfig& config, const DeviceLimits& limits);
bool has_prompt_products(const core::ExecutorConfig& config, const DeviceLimits& limits);
// Whether prompts attend by a kernel of their own, where it takes their heads and caches.
bool has_prompt_attention(const core::ExecutorConfig& config, const DeviceLimits& limits);

// Rows of a tile of sorted experts' inputs for Way::wide, which most experts' choices find room in; and of all such
// tiles, those that are not full included; 0 where there are never so many choices that this way is taken.
int sorted_wide_tile(int64_t choices, int64_t experts);
int64_t sorted_wide_rows(int64_t choices, int64_t experts);

// Whether a shared expert is one more choice of each of `rows` tokens, which are multiplied one by one. Else its
// products are two or three kernels more. It is one unless that leaves a sixth of the multiprocessors without work that
// had some, since each choice gets the same number of them.
bool shared_expert_is_choice(const DeviceLimits& limits, int64_t rows, int64_t used);

} // namespace ridge::kernels::cuda
