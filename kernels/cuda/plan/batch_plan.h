// A batch's kernels, chosen on the host without a GPU; executor/launches.h launches them. A plan depends on the batch's
// shape, not on its tokens.
#pragma once

#include "core/executor.h"
#include "kernels/cuda/plan/calls.h"
#include "kernels/cuda/plan/candidates.h"
#include "kernels/cuda/runtime/limits.h"

#include <span>
#include <string>
#include <vector>

namespace ridge::kernels::cuda {

inline constexpr int64_t kGraphTokens = 64; // larger batches are not graphs

// enough to fill the chip with a block per token
inline constexpr int64_t kPromptTokensAtLeast = 64;

// ExecutorConfig::batch_invariant: a token attends as if alone in its batch, in so many splits of its context at most;
// so many tokens share a launch and its scratch, latent attention with a quarter of the splits.
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

  bool is_dataflow(core::ValueId id) const { return dataflow_tokens > 0 && dataflow_values[id]; }
};

// Depends on the Program, configuration and limits, not on the device.
class KernelCapabilities {
 public:
  virtual ~KernelCapabilities() = default;

  // Whether one matvec kernel can compute both.
  virtual bool can_pair(const MatrixStep& first, const MatrixStep& second, int64_t tokens) const = 0;

  // Whether its matvec kernel adds the parts' changes.
  virtual bool can_adapt(const MatrixStep& matrix, int64_t tokens) const = 0;

  // Whether the product's kernel also computes the router's scores.
  virtual bool can_take_router(const MatrixStep& matrix, const MatrixStep& router, int64_t tokens) const = 0;

  // `tokens`: rows of the input, or slots of experts.
  struct Fit {
    bool fits;
    bool split_columns; // split-K
    bool leaves_sums;   // another kernel adds the partial sums
  };
  virtual Fit small_batch(const MatrixStep& matrix, int64_t tokens, int tile_tokens) const = 0;
  virtual Fit wide_batch(const MatrixStep& matrix, int64_t tokens) const = 0;

  virtual bool can_dot_experts(const MatrixStep& matrix, int64_t slots) const = 0;

  // `one_run`: consecutive tokens of one stream; otherwise streams are distinct.
  virtual bool can_rope_in_attention(const HeadsStep& heads, bool one_run) const = 0;
  virtual bool can_rope_prompts(const HeadsStep& heads) const = 0;
  virtual bool can_attend_prompts(const core::Op& attention) const = 0;
  virtual bool can_multiply_bytes(const MatrixStep& matrix) const = 0;
  virtual bool has_fast_attention(const core::Op& attention) const = 0; // for causal attention
  virtual bool attention_writes_half(const core::Op& attention) const = 0;
};

// The same for all batches of an executor.
struct PlanInputs {
  const core::Program& program;
  const core::ExecutorConfig& config;
  const Plan& plan;
  DeviceLimits limits;
  bool overlap = true, dataflow_sync = true;
  bool experts_on_host = false;
  const KernelCapabilities& kernels;
  ChipRates rates;
  int64_t least_side = 0;
  ForcedWays forced = {};
  WayFactors factors = way_factors({});
  const Plan* adapted = nullptr; // for batches whose kernels add all changes
};

// Whether tokens attend to later ones.
bool sees_ahead(const core::AttentionParams& params, const PlanShape& shape);

BatchPlan plan_for(const PlanInputs& inputs, const PlanShape& shape);

// Without the layer: "attn_q attn_k attn_v".
std::string name_of_products(const core::Program& program, const Plan& plan, std::span<const int32_t> steps);

std::string describe(const core::Program& program, const Plan& plan, const BatchPlan& batch);

} // namespace ridge::kernels::cuda
