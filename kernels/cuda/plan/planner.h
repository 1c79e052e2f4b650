// The passes that turn a Program into a Plan.
#pragma once

#include "kernels/cuda/plan/plan.h"

#include <algorithm>
#include <utility>

namespace ridge::kernels::cuda {

class Planner {
 public:
  explicit Planner(const core::Program& program) : program_(program) {
    for (const core::Op& op : program.ops) steps_.push_back(step_of(op));
  }

  void take_adapters();
  void fuse(bool with_norms = true);
  void find_dataflow();
  void pass_small_values();
  void find_folded_routers();
  Plan finish();

  bool adapts() const {
    return std::ranges::any_of(steps_, [](const Step& step) { return step.matrix() && step.matrix()->has_changes(); });
  }

 private:
  void fold_norms();
  void fuse_gate_up();
  void fuse_sums();
  void fuse_gates_of_norms();
  void fuse_residuals();
  void fuse_sums_of_norms();
  void join_shared_experts();
  void merge_siblings();
  void fuse_heads();
  void fuse_latent_heads();
  void find_head_matrices();

  static Step step_of(const core::Op& op) {
    Step step{.op = &op, .inputs = op.inputs, .outputs = op.outputs};
    if (op.kind != core::OpKind::linear && op.kind != core::OpKind::expert_linear) return step;
    MatrixStep m{.x = op.inputs[0]};
    m.parts = {{op.weights[0], op.weights.size() > 1 ? op.weights[1] : kNone, op.outputs[0]}};
    if (op.kind == core::OpKind::expert_linear) {
      m.ids = op.inputs[1];
      m.used = std::get<core::ExpertParams>(op.params).used;
    }
    step.work = std::move(m);
    return step;
  }

  // -1: none. Callers read values, too: Program::is_read_after.
  int writer(core::ValueId id) const {
    for (size_t i = 0; i < steps_.size(); ++i)
      if (std::ranges::count(steps_[i].outputs, id)) return static_cast<int>(i);
    return -1;
  }
  std::vector<int> readers(core::ValueId id) const {
    std::vector<int> found;
    for (size_t i = 0; i < steps_.size(); ++i)
      if (std::ranges::count(steps_[i].inputs, id)) found.push_back(static_cast<int>(i));
    return found;
  }
  bool is_sum_over_ranks(const Step& step) const { return step.is_op(core::OpKind::all_reduce); }
  bool exchanges_follow_one_another() const;
  bool read_once(core::ValueId id) const { return !program_.is_read_after(id) && readers(id).size() == 1; }
  bool is_op(int step, core::OpKind kind) const { return step >= 0 && steps_[step].is_op(kind); }
  bool is_factor(int step) const {
    if (!is_op(step, core::OpKind::activate) || !steps_[step].op->weights.empty()) return false;
    const auto& params = std::get<core::ActivationParams>(steps_[step].op->params);
    return params == core::ActivationParams{core::Activation::identity, params.alpha};
  }
  // With nothing fused after it.
  bool is_plain_matrix(int step) const {
    const MatrixStep* m = step < 0 ? nullptr : steps_[step].matrix();
    return m && m->parts.size() == 1 && !m->glu && m->residual == kNone && m->shared_expert.empty();
  }
  bool same_input(const MatrixStep& a, const MatrixStep& b) const {
    const core::Weight &wa = program_.weights[a.parts[0].weight], &wb = program_.weights[b.parts[0].weight];
    return a.x == b.x && a.norm == b.norm && a.norm_epsilon == b.norm_epsilon && a.ids == b.ids && wa.type == wb.type;
  }
  bool takes_router(const MatrixStep& m) const;
  bool is_router(const MatrixStep& m) const;
  // With nothing fused after it.
  bool joins_experts(const MatrixStep& experts, const MatrixStep& shared) const;
  // As one more choice of each token.
  bool collect_terms(core::ValueId id, float scale, SumStep& sum, std::vector<int>& steps) const;

  // Removed after the pass, so that indices stay valid.
  void mark_removed(int index) {
    Step& step = steps_[index];
    step.op = nullptr;
    step.inputs.clear();
    step.outputs.clear();
  }
  void remove_marked() {
    std::erase_if(steps_, [](const Step& step) { return step.op == nullptr; });
  }

  const core::Program& program_;
  std::vector<Step> steps_;
  std::vector<bool> dataflow_values_;
  std::map<core::ValueId, int64_t> widths_;
};

} // namespace ridge::kernels::cuda
