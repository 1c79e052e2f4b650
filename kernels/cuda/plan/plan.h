// What the CUDA executor launches: a Program's ops, some of them merged. Each fusion is one pass over the list of
// steps, and without the passes every op is a step of its own, so that each fusion can be tested against what it
// replaces.
#pragma once

#include "core/program.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ridge::kernels::cuda {

inline constexpr int32_t kNone = -1;

// One product with a matrix, or up to kMostSegments with a common input, and what is fused around it.
struct MatrixStep {
  struct Part {
    core::WeightId weight, bias; // bias: kNone where there is none
    core::ValueId out;
  };
  core::ValueId x;
  core::WeightId norm = kNone; // x is RMS-normed over its whole width first
  float norm_epsilon = 0;
  std::vector<Part> parts;
  // Parts are gate and up, both with the result as `out`. Or there is one part, whose result is activated (only in the
  // plan of a batch: activation_behind).
  std::optional<core::ActivationParams> glu;
  core::ValueId residual = kNone; // added to the result
  core::ValueId ids = kNone;      // experts chosen per token
  int64_t used = 1;
  std::vector<MatrixStep> beside; // none, or a shared expert's product, of the same format, size and gate
  bool of_heads = false; // ids are 0, 1, 2 … used - 1: a matrix for each head, known before any kernel has run

  // Whether blocks of it wait for a value before they multiply.
  bool reads(core::ValueId id) const {
    return id == x || (id == ids && !of_heads) || (!beside.empty() && id == beside[0].x);
  }
};

// Between the q/k/v matrices and attention: head norms, rotation, cache; and attention, unless that is a step of its
// own.
struct HeadsStep {
  core::ValueId q_in = kNone, k_in = kNone, v_in = kNone;
  core::ValueId q_out = kNone, k_out = kNone; // rotated; k_out kNone: stored only
  core::WeightId q_norm = kNone, k_norm = kNone;
  bool norms_v = false; // v, too, with factors that are all 1
  float epsilon = 0;
  int64_t q_heads = 0, k_heads = 0, head_dim = 0;
  int32_t table = kNone;    // of Program::rope_tables
  int32_t kv_layer = kNone; // where k and v go
  const core::Op* attention = nullptr;
};

// Before latent attention: the norm of c, rotation of r and of the queries for it, and the cache.
struct LatentStep {
  core::ValueId c_in = kNone, r_in = kNone;
  core::ValueId q_in = kNone, q_out = kNone; // kNone: no queries
  core::WeightId c_norm = kNone;             // kNone: c is stored as it is
  float epsilon = 0;
  int64_t q_heads = 0;
  int32_t table = kNone; // of Program::rope_tables
  int32_t kv_layer = kNone;
};

// Additions behind experts in one step: their weighted sum, a gated shared expert, the residual stream.
struct SumStep {
  struct Term {
    core::ValueId x, factors = kNone; // factors: shares of experts, or a gate
    bool gated = false;
    float scale = 1;
  };
  static constexpr size_t kMostTerms = 4;
  std::vector<Term> terms;
};

// A norm with the SiLU gate behind or before it, or with the sum that its result goes into.
struct NormStep {
  core::ValueId x = kNone, gate = kNone;
  core::WeightId weight = kNone;
  int64_t group = 0;
  float epsilon = 0;
  bool gates_input = false;       // the gate is before the norm
  core::ValueId residual = kNone; // factor * (residual + scale * what is normed)
  float scale = 1, factor = 1;
};

// An op as it is.
struct OpStep {};

struct Step {
  std::variant<OpStep, MatrixStep, HeadsStep, LatentStep, SumStep, NormStep> work;
  const core::Op* op; // the first that this step stands for; of an OpStep the only one
  std::vector<core::ValueId> inputs, outputs;
  bool dataflow_input = false; // all that it reads are dataflow values: it need not wait for its predecessor
  bool only_sorted = false;    // head_ids that are read only to sort tokens by them
  bool folded = false;         // a router that is multiplied by the product in front (router/folded_router.h)

  template <typename Work>
  const Work* get() const {
    return std::get_if<Work>(&work);
  }
  const MatrixStep* matrix() const { return get<MatrixStep>(); } // null: it is none
  MatrixStep* matrix() { return std::get_if<MatrixStep>(&work); }
  bool is_op(core::OpKind kind) const { return get<OpStep>() && op && op->kind == kind; }

  // Whether its blocks wait for a value before they do anything with it: not for what they add in the end.
  bool waits_for(core::ValueId id) const {
    if (const MatrixStep* m = matrix()) return m->reads(id);
    const auto* norm = get<NormStep>();
    return !norm || id == norm->x;
  }
};

struct Plan {
  std::vector<Step> steps;
  core::BufferPlan buffers;          // for these steps
  std::vector<bool> dataflow_values; // by value: written by a matrix, read by another one's kernel while both run
};

// The Program must outlive the plan.
Plan make_plan(const core::Program& program, bool fuse);

// The `activate` behind a product without a residual that a product of prompts can apply to its result: no other step
// reads what is in between. Null: there is none.
const core::Op* activation_behind(const core::Program& program, const Plan& plan, size_t step);

// Per step, indices into Program::ops. Every op belongs to one step: the one that writes what it computes, or else the
// one that its result is used up in.
std::vector<std::vector<int32_t>> ops_of_steps(const core::Program& program, const Plan& plan);

// Per step "layer:ops".
std::vector<std::string> names_of_steps(const core::Program& program, const Plan& plan);

} // namespace ridge::kernels::cuda
