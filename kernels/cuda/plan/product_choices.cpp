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
  // One H200: experts of 768 with 12 to 16 tokens were 24 to 29 % slower sorted, with 24 tokens 5 % faster; experts of
  // 2880, as many tokens as experts, 23 % faster.
  const bool narrow = cols <= kChunkColumns;
  return has_tensor_products(config, limits) && limits.small_batch && (narrow ? slots : 2 * slots) > experts;
}

int expert_tile_tokens(int64_t slots, int64_t experts) {
  return slots > 12 * experts ? 32 : slots > 5 * experts ? 16 : 8;
}

} // namespace ridge::kernels::cuda
