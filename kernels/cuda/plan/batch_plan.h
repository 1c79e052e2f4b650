// Which kernels run for a batch, in order, with the values and weights that each of them gets. All choices are made
// here, on the host and without a GPU; launching walks the list (executor/launches.h). A plan depends on the batch's
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

inline constexpr int64_t kGraphTokens = 64; // batches up to this size are replayed as a graph

// So many tokens fill the chip with a block or more for each of them, in attention and rope.
inline constexpr int64_t kPromptTokensAtLeast = 64;

// Consecutive tokens of one stream, in sequence: a piece of a prompt.
struct TokenRun {
  int64_t first, tokens;
  auto operator<=>(const TokenRun&) const = default;
};

// What kernels depend on in a batch.
struct PlanShape {
  int64_t tokens, outputs;
  int tile_tokens;       // most tokens of an attention tile: more than one where all are of one stream and in sequence
  bool distinct_streams; // no two tokens are of one stream: none attends to another one's key
  bool sample = false;   // ends with the choice of the next token by the sampler chain, behind every output
  // Prompts of at least kPromptTokensAtLeast tokens beside other tokens: attention works on each of them as on a batch
  // of its own.
  std::vector<TokenRun> prompts = {};
  bool gives_rows = false, has_blocks = false; // core::Batch::rows, block_ends
  auto operator<=>(const PlanShape&) const = default;
};

// Which way was chosen for the products of these steps, and among which.
struct PlannedProducts {
  std::vector<int32_t> steps; // of Plan::steps
  ProductChoice choice;
};

struct BatchPlan {
  PlanShape shape;
  int64_t dataflow_tokens = 0;       // tokens whose values pass between running kernels; 0: none do
  std::vector<bool> dataflow_values; // by value
  std::vector<KernelCall> calls;
  std::vector<PlannedProducts> products;

  bool is_dataflow(core::ValueId id) const { return dataflow_tokens > 0 && dataflow_values[id]; }
};

// What kernels can do on this chip. Answers depend on the Program, the configuration and limits, not on the device.
class KernelChoices {
 public:
  virtual ~KernelChoices() = default;

  // Whether one matvec kernel takes two products of one or two tokens, the second of another format.
  virtual bool can_pair(const MatrixStep& first, const MatrixStep& second, int64_t tokens) const = 0;

  // Whether scores of a folded router can be made beside a product of one or two tokens.
  virtual bool can_take_router(const MatrixStep& matrix, const MatrixStep& router, int64_t tokens) const = 0;

  // The product for small batches in tiles of 8, 16 or 32 tokens. `tokens`: rows of the input, or slots of experts.
  struct Fit {
    bool fits;          // into shared memory
    bool split_columns; // into ranges, whose sums are added up through memory
    bool leaves_sums;   // by another kernel
  };
  virtual Fit small_batch(const MatrixStep& matrix, int64_t tokens, int tile_tokens) const = 0;
  virtual Fit wide_batch(const MatrixStep& matrix, int64_t tokens) const = 0;

  virtual bool can_dot_experts(const MatrixStep& matrix, int64_t slots) const = 0; // in tiles of 8 tokens

  // Each token being of another stream, or all of one and in sequence.
  virtual bool can_rope_in_attention(const HeadsStep& heads, bool one_run) const = 0;
  virtual bool can_rope_prompts(const HeadsStep& heads) const = 0;
  virtual bool can_attend_prompts(const core::Op& attention) const = 0;
  virtual bool can_multiply_bytes(const MatrixStep& matrix) const = 0;  // by an integer_product
  virtual bool has_fast_attention(const core::Op& attention) const = 0; // where no token sees later ones
  virtual bool attention_writes_half(const core::Op& attention) const = 0;
};

// What a plan is made from beside the shape: the same for all batches of an executor.
struct PlanInputs {
  const core::Program& program;
  const core::ExecutorConfig& config;
  const Plan& plan;
  DeviceLimits limits;
  bool overlap = true, dataflow_sync = true; // CudaOptions
  bool experts_on_host = false;
  const KernelChoices& kernels;
  ChipRates rates;
  int64_t least_side = 0; // CudaOptions
  ForcedWays forced = {};
  WayFactors factors = way_factors({});
};

// Whether tokens see later ones: in the whole text, or in blocks that the batch has.
bool sees_ahead(const core::AttentionParams& params, const PlanShape& shape);

BatchPlan plan_for(const PlanInputs& inputs, const PlanShape& shape);

// Names of the products of these steps, without the layer: "attn_q attn_k attn_v".
std::string name_of_products(const core::Program& program, const Plan& plan, std::span<const int32_t> steps);

// The plan as a table, a call per line: kernel, ops, formats, rows x columns, flags.
std::string describe(const core::Program& program, const Plan& plan, const BatchPlan& batch);

} // namespace ridge::kernels::cuda
