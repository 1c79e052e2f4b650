// Which kinds of products a chip and a configuration have.
#include "core/host_device/round_up.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/plan/batch_plan.h"
#include "kernels/cuda/plan/scratch_sizes.h"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

constexpr int64_t kFewTokensAnExpert = 5; // for products of warpgroups

bool has_few_columns(int64_t cols) { return cols <= kChunkColumns; }

// Of products of warpgroups: the smallest tile in which the tokens of most experts find room.
int tile_of_most(int64_t slots, int64_t experts) {
  const int64_t each = slots / experts;
  return wide_tile_rows(std::min<int64_t>(each + each / 4 + 4, kMostWideRows / 2));
}

} // namespace

bool has_tensor_products(const core::ExecutorConfig& config, const DeviceLimits& limits) {
  return !config.exact && limits.shared_per_block >= kGemmSharedBytes;
}

bool has_prompt_products(const core::ExecutorConfig& config, const DeviceLimits& limits) {
  return has_tensor_products(config, limits) && config.max_batch > kBatchTokens && limits.prompt_products;
}

bool has_prompt_attention(const core::ExecutorConfig& config, const DeviceLimits& limits) {
  return has_tensor_products(config, limits) && limits.small_batch;
}

bool has_integer_products(const core::Program& program, const core::ExecutorConfig& config,
                          const DeviceLimits& limits) {
  return has_tensor_products(config, limits) && limits.integer_products && !config.wide &&
         !core::amplifies_errors(program);
}

bool sorts_experts(const core::ExecutorConfig& config, const DeviceLimits& limits, int64_t slots, int64_t experts,
                   int64_t cols) {
  if (!has_tensor_products(config, limits) || !limits.small_batch) return false;
  // One H200: 32 experts of 2880 were 23 % faster sorted where there were as many slots.
  if (!has_few_columns(cols)) return 2 * slots > experts;
  // Unsorted, each multiprocessor takes one slot at a time. 128 experts of 768 took 6.3 ms with 128 slots and 9.7 with
  // 136, sorted 7.2 and 7.8; 256 of 512 with 256 slots 10.7 and sorted 11.4. So what counts is whether slots take the
  // multiprocessors one time more than all experts would.
  const int64_t rounds = (experts + limits.sm_count - 1) / limits.sm_count;
  return 2 * slots > 3 * experts || slots > rounds * limits.sm_count;
}

bool shared_expert_is_slot(const DeviceLimits& limits, int64_t rows, int64_t used) {
  constexpr int64_t kMostRows = 8; // each reads its weights again, from the cache; more were not measured
  const auto busy = [&](int64_t slots) { return slots * std::max<int64_t>(1, limits.sm_count / slots); };
  return rows == 1 || (rows <= kMostRows && 6 * busy(rows * (used + 1)) >= 5 * busy(rows * used));
}

bool few_tokens_an_expert(int64_t slots, int64_t experts, int64_t cols) {
  return has_few_columns(cols) && 2 * slots <= 5 * experts;
}

int wide_expert_tile_tokens(const DeviceLimits& limits, int64_t slots, int64_t experts, int64_t fewest, int64_t most) {
  if (!limits.prompt_products || !limits.small_batch) return 0;
  if (slots <= (has_few_columns(fewest) ? 11 : kFewTokensAnExpert) * experts) return 0;
  const int64_t bytes = sorted_wide_rows(slots, experts) * core::round_up(most, kWideColumns) * kF16Bytes;
  return bytes > kMostSortedWideBytes ? 0 : tile_of_most(slots, experts);
}

int64_t sorted_wide_rows(int64_t slots, int64_t experts) {
  return slots <= kFewTokensAnExpert * experts ? 0 : slots + experts * tile_of_most(slots, experts);
}

int expert_tile_tokens(int64_t slots, int64_t experts) {
  return slots > 12 * experts ? 32 : slots > 5 * experts ? 16 : 8;
}

} // namespace ridge::kernels::cuda
