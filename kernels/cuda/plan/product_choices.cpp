// Which kinds of products a chip and a configuration have.
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/plan/batch_plan.h"

namespace ridge::kernels::cuda {

bool has_tensor_products(const core::ExecutorConfig& config, const DeviceLimits& limits) {
  return !config.exact && limits.shared_per_block >= kGemmSharedBytes;
}

bool has_prompt_products(const core::ExecutorConfig& config, const DeviceLimits& limits) {
  return has_tensor_products(config, limits) && config.max_batch > kBatchTokens && limits.prompt_products;
}

bool sorts_experts(const core::ExecutorConfig& config, const DeviceLimits& limits, int64_t slots, int64_t experts,
                   int64_t cols) {
  // One H200: 128 experts of 768 took 6.2 ms unsorted with 16 tokens of 8 slots, and 9.2 sorted with 17; 32 of 2880
  // were 23 % faster sorted where there were as many slots.
  const bool narrow = cols <= kChunkColumns;
  return has_tensor_products(config, limits) && limits.small_batch && 2 * slots > (narrow ? 3 : 1) * experts;
}

int expert_tile_tokens(int64_t slots, int64_t experts) {
  return slots > 12 * experts ? 32 : slots > 5 * experts ? 16 : 8;
}

} // namespace ridge::kernels::cuda
