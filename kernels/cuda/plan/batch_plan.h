// Which kernels run for a batch, in order, with the values and weights that each of them gets. All choices are made
// here, on the host and without a GPU; launching walks the list (executor/launches.h). A plan depends on the batch's
// shape, not on its tokens.
#pragma once

#include "core/executor.h"
#include "kernels/cuda/plan/candidates.h"
#include "kernels/cuda/plan/plan.h"
#include "kernels/cuda/products/half_layout.h"
#include "kernels/cuda/runtime/limits.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::kernels::cuda {

inline constexpr int64_t kGraphTokens = 64; // batches up to this size are replayed as a graph

// So many tokens fill the chip with a block or more for each of them, in attention and rope.
inline constexpr int64_t kPromptTokensAtLeast = 64;

// Matrices that one prompt product takes.
inline constexpr size_t kMostSiblingMatrices = kMostSegments;

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

enum class Kernel : uint8_t {
  clear_dataflow, // sets all values that pass between running kernels to the sentinel
  observe,        // no kernel: the host copies a matrix's input and shows it to the observer
  to_half,        // a product's input as f16, normed where the product norms
  matvec,
  matvec_pair,   // two matrices of different formats with the same input
  matvec_router, // with the scores of a folded router and the choice by them (router/folded_router.h)
  small_batch,
  expert_batch,    // small_batch on the rows that each expert was chosen for
  expert_dots,     // the same for few rows each, by integers
  prompt_product,  // and, where `op` is a sum over ranks, that of what it makes
  integer_product, // with activations as bytes
  gemm,
  gate_up_glu, // behind a gemm with gate and up
  rope_store,
  latent_store, // with the rotations before it
  prompt_rope,
  rope_attention, // rope_store and attention in one
  attention,
  plain_attention, // for any head size and cache type, and for chosen positions
  prompt_attention,
  latent_attention,
  plain_latent_attention, // for any widths and cache type, for chosen positions, and for entries beside a window
  index_choice,
  sort_experts,  // slots in the order of their experts, behind route
  fetch_experts, // of those in the host's memory, behind route
  sum,           // additions behind experts
  norm,
  op,               // an op as it is
  number_exchanges, // before those of a step
  exchange,         // with other ranks
  sample,
};
std::string_view name_of(Kernel kernel);

struct KernelCall {
  struct Product {
    MatrixStep matrix;
    bool dataflow_input = false; // its input arrives while the kernel runs
  };

  Kernel kernel;
  int32_t first_step = 0, step = 0; // of Plan::steps: what it computes, up to `step`; a profile counts it to `step`
  bool overlap = false;             // may start while its predecessor runs

  // The products of the call. to_half and observe have the one whose input it is, to_half then the one whose sums it
  // adds up; matvec_router has the router second.
  std::vector<Product> products;
  HeadsStep heads;   // of rope_store, prompt_rope, rope_attention
  LatentStep latent; // of latent_store
  SumStep sum;
  NormStep norm;
  const core::Op* op = nullptr;               // of op, attention, observe, exchanges and what follows route;
                                              // of matvec_router the `route`, of to_half a layer norm in front
  std::vector<core::ValueId> inputs, outputs; // of `op`; outputs also of sum and norm
  bool dataflow_input = false;                // of heads, norm, sum and exchange

  int64_t rows = 0;                                      // tokens that it computes; of experts, slots
  int64_t output = 0;                                    // sample: whose logits
  int64_t cols = 0;                                      // to_half: columns
  HalfLayout layout = HalfLayout::rows;                  // to_half, and attention that writes_half
  int64_t place = 0;                                     // of an exchange among those of the step
  int left_free = 0;                                     // matvec, matvec_pair: multiprocessors that they leave free
  int64_t experts = 0;                                   // sort_experts: among which slots are sorted
  bool sibling_follows = false, follows_sibling = false; // small_batch: shares its input with the next or previous call
  bool wide =
      false; // small_batch, expert_batch by products of warpgroups; to_half: it is such a one's sums that it adds up
  int tile_tokens = 0;      // small_batch, of experts, sort_experts; to_half: of the product whose sums it adds up,
                            // or that wants its input sorted_wide
  bool leaves_sums = false; // small_batch: the next to_half adds up what it makes of ranges of columns
  // small_batch, expert_batch: gate and up write as f16 what down reads. prompt_product: in the memory of the value.
  // Attention: what to_half would write.
  bool writes_half = false, reads_half = false;
  bool unscaled = false; // prompt_product: its input in f16 is not from to_half, so its exponents say less
  int64_t cleared = 0;   // to_half: largest values per row, for the next product that writes_half
  bool gathers = false;  // one token: the result goes where the gather behind it would have copied it to
  int64_t first_row = 0; // attention and prompt_attention: of the `rows`
  bool one_run = false;  // of these and rope_attention: the rows are a TokenRun
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
  struct SmallBatch {
    bool fits;          // into shared memory
    bool split_columns; // into ranges, whose sums are added up through memory
    bool leaves_sums;   // by another kernel
  };
  virtual SmallBatch small_batch(const MatrixStep& matrix, int64_t tokens, int tile_tokens) const = 0;
  virtual SmallBatch wide_batch(const MatrixStep& matrix, int64_t tokens) const = 0;

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
};

// Whether tokens see later ones: in the whole text, or in blocks that the batch has.
bool sees_ahead(const core::AttentionParams& params, const PlanShape& shape);

BatchPlan plan_for(const PlanInputs& inputs, const PlanShape& shape);

// Names of the products of these steps, without the layer: "attn_q attn_k attn_v".
std::string name_of_products(const core::Program& program, const Plan& plan, std::span<const int32_t> steps);

// The plan as a table, a call per line: kernel, ops, formats, rows x columns, flags.
std::string describe(const core::Program& program, const Plan& plan, const BatchPlan& batch);

} // namespace ridge::kernels::cuda
