// The passes that turn a Program into a Plan.
#pragma once

#include "kernels/cuda/plan/plan.h"

#include <algorithm>
#include <initializer_list>
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

  int count() const { return static_cast<int>(steps_.size()); }
  // The index of the step that writes this value; -1 if none does.
  int writer(core::ValueId id) const {
    for (int i = 0; i < count(); ++i)
      if (std::ranges::count(steps_[i].outputs, id)) return i;
    return -1;
  }
  // Indices of steps. The program's user may read the value, too (Program::is_read_after).
  std::vector<int> readers(core::ValueId id) const {
    std::vector<int> found;
    for (int i = 0; i < count(); ++i)
      if (steps_[i].has_input(id)) found.push_back(i);
    return found;
  }
  bool read_once(core::ValueId id) const { return has_one_reader(program_, steps_, id); }
  bool is_op(int step, core::OpKind kind) const { return step >= 0 && steps_[step].is_op(kind); }
  // The op of this kind that writes a value which a single step reads; -1 if there is no such op.
  int writer_for_one(core::ValueId id, core::OpKind kind) const {
    const int step = writer(id);
    return is_op(step, kind) && read_once(id) ? step : -1;
  }
  bool is_factor(int step) const {
    if (!is_op(step, core::OpKind::activate) || !steps_[step].op->weights.empty()) return false;
    const auto& params = std::get<core::ActivationParams>(steps_[step].op->params);
    return params == core::ActivationParams{core::Activation::identity, params.alpha};
  }
  // One matrix, with nothing fused behind the product.
  bool is_plain_matrix(int step) const {
    const MatrixStep* m = step < 0 ? nullptr : steps_[step].matrix();
    return m && m->parts.size() == 1 && !m->glu && m->residual == kNone && m->shared_expert.empty();
  }
  bool is_plain_dense(int step) const { return is_plain_matrix(step) && steps_[step].matrix()->ids == kNone; }
  bool same_input(const MatrixStep& a, const MatrixStep& b) const {
    const core::Weight &wa = program_.weights[a.parts[0].weight], &wb = program_.weights[b.parts[0].weight];
    return a.x == b.x && a.norm == b.norm && a.norm_epsilon == b.norm_epsilon && a.ids == b.ids && wa.type == wb.type;
  }
  bool takes_router(const MatrixStep& m) const;
  bool is_router(const MatrixStep& m) const;
  // Whether the shared expert can be one more choice of each token.
  bool joins_experts(const MatrixStep& experts, const MatrixStep& shared) const;
  // Splits a value into the terms of its sum, and lists the steps that add them; false if there are too many terms.
  bool collect_terms(core::ValueId id, float scale, SumStep& sum, std::vector<int>& steps) const;
  bool exchanges_follow_one_another() const;

  // Calls visit(index, op) for each op of this kind, then removes the steps that it marked.
  void for_each_op(core::OpKind kind, const auto& visit) {
    for (int i = 0; i < count(); ++i)
      if (is_op(i, kind)) visit(i, *steps_[i].op);
    remove_marked();
  }
  // The step stays until the pass ends, so that indices stay valid.
  void mark_removed(int index) { steps_[index] = {}; }
  // Step `at` does the work of those taken, too.
  template <typename Work>
  void replace(int at, Work work, std::vector<core::ValueId> inputs, std::initializer_list<int> taken) {
    steps_[at].work = std::move(work);
    steps_[at].inputs = std::move(inputs);
    for (const int other : taken) mark_removed(other);
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
