// The CUDA executor's steps: a Program's ops, some fused by passes. Without passes every op is one step, so tests can
// compare.
#pragma once

#include "core/program.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ridge::kernels::cuda {

inline constexpr int32_t kNone = -1;

// Products with a common input, and what is fused around them.
struct MatrixStep {
  // What a LoRA adapter adds to a part's result: B (scale * (A x)), where `small` is A x. Only adapted plans have it.
  struct Change {
    core::WeightId a = kNone, b = kNone;
    const core::Op* scale = nullptr;
    core::ValueId small = kNone;
  };
  struct Part {
    core::WeightId weight, bias;
    core::ValueId out;
    Change change = {};
  };
  core::ValueId x;
  core::WeightId norm = kNone; // x is RMS-normed first
  float norm_epsilon = 0;
  std::vector<Part> parts;
  // The parts are gate and up, which write one `out`. In a batch's plan there can also be one part, whose result the
  // activation changes (activation_behind).
  std::optional<core::ActivationParams> glu;
  core::ValueId residual = kNone;
  core::ValueId ids = kNone;
  int64_t used = 1;
  std::vector<MatrixStep> shared_expert; // a shared expert's product of the same format, size and gate
  bool of_heads = false;                 // ids are 0 … used - 1 of as many matrices, known before any kernel runs

  // The first part's that has one: its `small` holds A x of all parts. Null without adapters.
  const Change* change() const {
    const auto found = std::ranges::find_if(parts, [](const Part& part) { return part.change.scale; });
    return found == parts.end() ? nullptr : &found->change;
  }
  bool has_changes() const { return change(); }
};

// Normalizes and rotates heads of q and k, writes k and v to the cache, and computes attention if that is fused.
struct HeadsStep {
  core::ValueId q_in = kNone, k_in = kNone, v_in = kNone;
  core::ValueId q_out = kNone;
  core::WeightId q_norm = kNone, k_norm = kNone;
  bool normalizes_v = false; // with factors of 1
  float epsilon = 0;
  int64_t q_heads = 0, k_heads = 0, head_dim = 0;
  int32_t table = kNone;
  int32_t kv_layer = kNone;
  const core::Op* attention = nullptr;
};

// The same for latent attention: normalizes c, rotates r and the queries, writes c and r to the cache.
struct LatentStep {
  core::ValueId c_in = kNone, r_in = kNone;
  core::ValueId q_in = kNone, q_out = kNone;
  core::WeightId c_norm = kNone; // kNone: unchanged
  float epsilon = 0;
  int64_t q_heads = 0;
  int32_t table = kNone;
  int32_t kv_layer = kNone;
};

// The additions behind experts: their weighted sum, a gated shared expert, the residual.
struct SumStep {
  struct Term {
    core::ValueId x, factors = kNone; // shares, or a gate
    bool gated = false;
    float scale = 1;
  };
  static constexpr size_t kMaxTerms = 4;
  std::vector<Term> terms;
};

// A norm with a SiLU gate, or with the sum that its result enters.
struct NormStep {
  core::ValueId x = kNone, gate = kNone;
  core::WeightId weight = kNone;
  int64_t group = 0;
  float epsilon = 0;
  bool gates_input = false;       // gate before the norm
  core::ValueId residual = kNone; // factor * (residual + scale * norm)
  float scale = 1, factor = 1;
};

struct OpStep {};

struct Step {
  std::variant<OpStep, MatrixStep, HeadsStep, LatentStep, SumStep, NormStep> work;
  const core::Op* op = nullptr; // the first op of the step
  std::vector<core::ValueId> inputs, outputs;
  bool dataflow_input = false; // reads only dataflow values, so it need not wait for its predecessor
  bool known_ids = false;      // head_ids that only products of heads read: nothing writes them
  bool folded = false;         // see router/folded_router.h

  template <typename Work>
  const Work* get() const {
    return std::get_if<Work>(&work);
  }
  const MatrixStep* matrix() const { return get<MatrixStep>(); }
  MatrixStep* matrix() { return std::get_if<MatrixStep>(&work); }
  bool is_op(core::OpKind kind) const { return get<OpStep>() && op && op->kind == kind; }
  bool has_input(core::ValueId id) const { return std::ranges::count(inputs, id) > 0; }

  // Whether blocks wait for this value before their main work, rather than add it at the end.
  bool waits_for(core::ValueId id) const {
    if (const MatrixStep* m = matrix())
      return id == m->x || (id == m->ids && !m->of_heads) || (!m->shared_expert.empty() && id == m->shared_expert[0].x);
    const auto* norm = get<NormStep>();
    return !norm || id == norm->x;
  }
};

// Whether a single step reads this value, and it is not read after the Program (Program::is_read_after).
inline bool has_one_reader(const core::Program& program, const std::vector<Step>& steps, core::ValueId id) {
  const auto reads = [&](const Step& step) { return step.has_input(id); };
  return !program.is_read_after(id) && std::ranges::count_if(steps, reads) == 1;
}

// Whether the input of experts has a row per slot, as down's, instead of one per token.
inline bool has_rows_by_slot(const core::Program& program, const MatrixStep& m) {
  return m.ids != kNone && program.values[m.x].width != program.weights[m.parts[0].weight].cols;
}

struct Plan {
  std::vector<Step> steps;
  core::BufferPlan buffers;
  std::vector<bool> dataflow_values;       // read while the writer runs
  std::map<core::ValueId, int64_t> widths; // of values that hold more than the Program's
};

// `program` must outlive the plan. fold_norms: into the products that read them.
Plan make_plan(const core::Program& program, bool fuse, bool fold_norms = true);

// A fused plan whose products add LoRA adapters in their own kernels; nothing without adapters. Routers are not folded.
std::optional<Plan> make_adapted_plan(const core::Program& program);

// The `activate` that a prompt product can apply to its result, which no other step reads; or null.
const core::Op* activation_behind(const core::Program& program, const Plan& plan, size_t step);

// Indices into Program::ops, under the step that writes the result or uses it up.
std::vector<std::vector<int32_t>> ops_of_steps(const core::Program& program, const Plan& plan);

// "layer:ops"
std::vector<std::string> names_of_steps(const core::Program& program, const Plan& plan);

} // namespace ridge::kernels::cuda
