// A batch's kernels, chosen on the host without a GPU; executor/launches.h launches them. A plan depends on the batch's
// shape, not on its tokens.
#pragma once

#include "core/executor.h"
#include "kernels/cuda/plan/calls.h"
#include "kernels/cuda/plan/candidates.h"
#include "kernels/cuda/plan/cpu_experts.h"
#include "kernels/cuda/runtime/limits.h"

#include <span>
#include <string>
#include <vector>

namespace ridge::kernels::cuda {

inline constexpr int64_t kGraphTokens = 64; // larger batches are not graphs

// So many tokens fill the chip with a block per token.
inline constexpr int64_t kPromptTokensAtLeast = 64;

// With ExecutorConfig::batch_invariant a token attends as if alone in its batch, in kInvariantSplits splits of its
// context at most. kInvariantTokens tokens share a launch and its scratch. Latent attention has a quarter of the
// splits.
inline constexpr int kInvariantSplits = 32, kInvariantTokens = 16, kInvariantLatentShare = 4;

struct TokenRun {
  int64_t first, tokens;
  auto operator<=>(const TokenRun&) const = default;
};

struct PlanShape {
  int64_t tokens, outputs;
  int tile_tokens;       // > 1: all tokens are consecutive in one stream
  bool distinct_streams; // no two tokens share a stream
  bool sample = false;
  // Runs of at least kPromptTokensAtLeast tokens in a mixed batch; attention handles each separately.
  std::vector<TokenRun> prompts = {};
  bool has_given_rows = false, has_blocks = false;
  auto operator<=>(const PlanShape&) const = default;
};

struct PlannedProducts {
  std::vector<int32_t> steps;
  ProductChoice choice;
};

struct BatchPlan {
  PlanShape shape;
  int64_t dataflow_tokens = 0; // 0: off
  std::vector<bool> dataflow_values;
  std::vector<KernelCall> calls;
  std::vector<PlannedProducts> products;
  bool adapted = false; // of PlanInputs::adapted
  int64_t messages = 0; // to the CPU, about experts

  bool is_dataflow(core::ValueId id) const { return dataflow_tokens > 0 && dataflow_values[id]; }
};

// Which kernels can take an attention step, by its head sizes and the cache's types.
struct AttentionFit {
  bool fast = false;          // attention.cu, wide_attention.cu, latent_attention.cu
  bool prompts = false;       // prompt_attention.cu, mma_attention.cu
  bool writes_half = false;   // these can write their result in f16, too
  bool ropes_tokens = false;  // attention.cu also norms, rotates and stores tokens of distinct streams
  bool ropes_run = false;     // and consecutive tokens of one stream
  bool ropes_prompts = false; // prompt_rope.cu
};

// The same for all batches of an executor.
struct PlanInputs {
  const core::Program& program;
  const core::ExecutorConfig& config;
  const Plan& plan;
  DeviceLimits limits;
  bool overlap = true, dataflow_sync = true;
  bool experts_on_host = false;
  std::vector<AttentionFit> attention; // by step
  ChipRates rates;
  int64_t least_side = 0;
  ForcedWays forced = {};
  WayFactors factors = way_factors({});
  const Plan* adapted = nullptr; // for batches whose kernels add all changes
  std::vector<AttentionFit> adapted_attention = {};
  std::vector<CpuExpertLayer> cpu_experts = {};
};

// Whether tokens attend to later ones.
bool sees_ahead(const core::AttentionParams& params, const PlanShape& shape);

BatchPlan plan_for(const PlanInputs& inputs, const PlanShape& shape);

// Without the layer: "attn_q attn_k attn_v".
std::string name_of_products(const core::Program& program, const Plan& plan, std::span<const int32_t> steps);

std::string describe(const core::Program& program, const Plan& plan, const BatchPlan& batch);

} // namespace ridge::kernels::cuda
