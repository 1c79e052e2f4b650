#include "kernels/cuda/plan/planner.h"
#include "kernels/cuda/runtime/fused_glu.h"
#include "kernels/cuda/runtime/limits.h"

namespace ridge::kernels::cuda {

using core::Op;
using core::OpKind;
using core::Program;
using core::ValueId;

// A norm that only products read becomes part of them: they normalize their input.
void Planner::fold_norms() {
  for_each_op(OpKind::rms_norm, [&](int i, const Op& norm) {
    const auto& params = std::get<core::NormParams>(norm.params);
    const ValueId normed = norm.outputs[0];
    const std::vector<int> users = readers(normed);
    const bool foldable = params.group == program_.values[normed].width && !program_.is_read_after(normed) &&
                          !users.empty() && std::ranges::all_of(users, [&](int user) {
                            const MatrixStep* m = steps_[user].matrix();
                            return m && m->x == normed && m->norm == kNone;
                          });
    if (!foldable) return;
    for (int user : users) {
      MatrixStep& m = *steps_[user].matrix();
      m.x = norm.inputs[0];
      m.norm = norm.weights[0];
      m.norm_epsilon = params.epsilon;
      std::ranges::replace(steps_[user].inputs, normed, norm.inputs[0]);
    }
    mark_removed(i);
  });
}

// activation(gate x) * (up x) becomes one product.
void Planner::fuse_gate_up() {
  for_each_op(OpKind::glu, [&](int i, const Op& glu) {
    const auto& params = std::get<core::ActivationParams>(glu.params);
    if (!fused_glu(params)) return;
    const int gate = writer(glu.inputs[0]), up = writer(glu.inputs[1]);
    if (gate == up || !is_plain_matrix(gate) || !is_plain_matrix(up)) return;
    if (!read_once(glu.inputs[0]) || !read_once(glu.inputs[1])) return;
    MatrixStep fused = *steps_[gate].matrix();
    const MatrixStep& other = *steps_[up].matrix();
    if (!same_input(fused, other)) return;
    fused.parts.push_back(other.parts[0]);
    fused.glu = params;
    for (MatrixStep::Part& part : fused.parts) part.out = glu.outputs[0];
    replace(i, std::move(fused), steps_[gate].inputs, {gate, up});
  });
}

bool Planner::collect_terms(ValueId id, float scale, SumStep& sum, std::vector<int>& steps) const {
  const int from = writer(id);
  const bool own = steps.empty() || read_once(id);
  const auto add_term = [&](SumStep::Term term) {
    sum.terms.push_back(term);
    return sum.terms.size() <= SumStep::kMaxTerms;
  };
  const Op* op = from >= 0 && steps_[from].get<OpStep>() ? steps_[from].op : nullptr;
  if (!op || !own) return add_term({id, kNone, false, scale});
  const auto takes = [&] { return steps.push_back(from), true; };
  if (op->kind == OpKind::add) {
    const float inner = std::get<core::AddParams>(op->params).scale;
    return takes() && collect_terms(op->inputs[0], scale, sum, steps) &&
           collect_terms(op->inputs[1], scale * inner, sum, steps);
  }
  if (op->kind == OpKind::expert_sum &&
      // one sum
      program_.values[op->inputs[1]].width == std::get<core::ExpertParams>(op->params).used)
    return takes() && add_term({op->inputs[0], op->inputs[1], false, scale});
  if (op->kind == OpKind::glu && program_.values[op->inputs[0]].width == 1 &&
      std::get<core::ActivationParams>(op->params) == core::ActivationParams{core::Activation::sigmoid})
    return takes() && add_term({op->inputs[1], op->inputs[0], true, scale});
  return add_term({id, kNone, false, scale});
}

// experts + sigmoid(gate) * (shared expert) + x becomes one sum.
void Planner::fuse_sums() {
  for (int i = count(); i-- > 0;) {
    if (!is_op(i, OpKind::add)) continue;
    SumStep sum;
    std::vector<int> taken;
    const bool fits = collect_terms(steps_[i].op->outputs[0], 1, sum, taken);
    const auto has_factors = [](const SumStep::Term& term) { return term.factors != kNone; };
    if (!fits || std::ranges::none_of(sum.terms, has_factors)) continue;
    Step& step = steps_[i];
    step.inputs.clear();
    for (const SumStep::Term& term : sum.terms) {
      step.inputs.push_back(term.x);
      if (term.factors != kNone) step.inputs.push_back(term.factors);
    }
    step.work = std::move(sum);
    for (const int other : taken)
      if (other != i) mark_removed(other);
  }
  remove_marked();
}

// silu(z) * norm(x), or norm(silu(z) * x), becomes one norm.
void Planner::fuse_gates_of_norms() {
  for (int i = 0; i < count(); ++i) {
    const bool gates_input = is_op(i, OpKind::rms_norm);
    if (!gates_input && !is_op(i, OpKind::glu)) continue;
    const int from =
        writer_for_one(steps_[i].op->inputs[gates_input ? 0 : 1], gates_input ? OpKind::glu : OpKind::rms_norm);
    if (from < 0) continue;
    const Op &norm = *steps_[gates_input ? i : from].op, &gate = *steps_[gates_input ? from : i].op;
    if (program_.values[gate.inputs[0]].width != program_.values[gate.inputs[1]].width ||
        std::get<core::ActivationParams>(gate.params) != core::ActivationParams{core::Activation::silu})
      continue;
    const auto& params = std::get<core::NormParams>(norm.params);
    const NormStep fused = {.x = gates_input ? gate.inputs[1] : norm.inputs[0],
                            .gate = gate.inputs[0],
                            .weight = norm.weights[0],
                            .group = params.group,
                            .epsilon = params.epsilon,
                            .gates_input = gates_input};
    replace(i, fused, {fused.x, fused.gate}, {from});
  }
  remove_marked();
}

// x + W h becomes a product that adds x.
void Planner::fuse_residuals() {
  for_each_op(OpKind::add, [&](int i, const Op& add) {
    if (std::get<core::AddParams>(add.params).scale != 1) return;
    for (const size_t side : {1, 0}) {
      const ValueId product = add.inputs[side], residual = add.inputs[1 - side];
      const int from = writer(product);
      if (product == residual || !is_plain_dense(from) || !read_once(product)) continue;
      MatrixStep fused = *steps_[from].matrix();
      fused.residual = residual;
      fused.parts[0].out = add.outputs[0];
      std::vector<ValueId> inputs = steps_[from].inputs;
      inputs.push_back(residual);
      replace(i, std::move(fused), std::move(inputs), {from});
      break;
    }
  });
}

// x + norm(h), which a constant may multiply, becomes one norm.
void Planner::fuse_sums_of_norms() {
  for_each_op(OpKind::add, [&](int i, const Op& add) {
    const float scale = std::get<core::AddParams>(add.params).scale;
    for (const size_t side : {1, 0}) {
      const ValueId normed = add.inputs[side], residual = add.inputs[1 - side];
      const int from = writer_for_one(normed, OpKind::rms_norm);
      if (normed == residual || from < 0 || (side == 0 && scale != 1)) continue;
      const Op& norm = *steps_[from].op;
      const auto& params = std::get<core::NormParams>(norm.params);
      NormStep fused = {.x = norm.inputs[0],
                        .weight = norm.weights[0],
                        .group = params.group,
                        .epsilon = params.epsilon,
                        .residual = residual,
                        .scale = scale};
      int at = i;
      if (const std::vector<int> users = readers(add.outputs[0]); read_once(add.outputs[0]) && is_factor(users[0])) {
        at = users[0];
        fused.factor = std::get<core::ActivationParams>(steps_[at].op->params).alpha;
        mark_removed(i);
      }
      replace(at, fused, {fused.x, residual}, {from});
      break;
    }
  });
}

// Products of one format with one input become one product.
void Planner::merge_siblings() {
  for (int i = 0; i < count(); ++i) {
    if (!is_plain_dense(i)) continue;
    MatrixStep& joined = *steps_[i].matrix();
    for (int j = i + 1; j < count() && joined.parts.size() < size_t{kMaxSegments}; ++j) {
      if (!is_plain_matrix(j) || !same_input(joined, *steps_[j].matrix())) continue;
      joined.parts.push_back(steps_[j].matrix()->parts[0]);
      steps_[i].outputs.push_back(steps_[j].outputs[0]);
      mark_removed(j);
    }
  }
  remove_marked();
}

// Whether each sum over ranks depends on the previous one. Then a rank that sends for one has received the previous
// one, though that kernel may still run.
bool Planner::exchanges_follow_one_another() const {
  // from the last sum, or the start
  std::vector<bool> follows(program_.values.size(), true);
  for (const Step& step : steps_) {
    const bool any = std::ranges::any_of(step.inputs, [&](ValueId id) { return follows[id]; });
    if (step.is_op(OpKind::all_reduce)) {
      if (!any) return false;
      follows.assign(follows.size(), false);
    }
    for (const ValueId id : step.outputs) follows[id] = any;
  }
  return true;
}

bool Planner::joins_experts(const MatrixStep& experts, const MatrixStep& shared) const {
  const bool fused = shared.norm != experts.norm || shared.norm_epsilon != experts.norm_epsilon ||
                     shared.glu != experts.glu || shared.residual != kNone || experts.residual != kNone;
  if (shared.ids != kNone || fused || shared.has_changes() || shared.parts.size() != experts.parts.size()) return false;
  for (size_t i = 0; i < shared.parts.size(); ++i) {
    const MatrixStep::Part &a = experts.parts[i], &b = shared.parts[i];
    const core::Weight &of_experts = program_.weights[a.weight], &of_shared = program_.weights[b.weight];
    if (of_experts.type != of_shared.type || of_experts.rows != of_shared.rows || of_experts.cols != of_shared.cols ||
        of_shared.count != 1 || a.bias != kNone || b.bias != kNone)
      return false;
  }
  // Both have a row per token, or the experts' has a row per slot.
  const int64_t cols = program_.weights[shared.parts[0].weight].cols;
  return program_.values[shared.x].width == cols && (experts.x == shared.x || program_.values[experts.x].width != cols);
}

void Planner::join_shared_experts() {
  for (int i = 0; i < count(); ++i) {
    MatrixStep* experts = steps_[i].matrix();
    if (!experts || !is_op(writer(experts->ids), OpKind::route)) continue;
    for (int j = 0; j < count(); ++j) {
      const MatrixStep* shared = steps_[j].matrix();
      if (!shared || steps_[j].op->layer != steps_[i].op->layer || !joins_experts(*experts, *shared)) continue;
      const std::vector<int> users = readers(steps_[j].outputs[0]);
      if (writer(shared->x) >= i || std::ranges::any_of(users, [&](int user) { return user <= i; })) continue;
      experts->shared_expert = {*shared};
      if (!steps_[i].has_input(shared->x)) steps_[i].inputs.push_back(shared->x);
      steps_[i].outputs.push_back(steps_[j].outputs[0]);
      mark_removed(j);
      break;
    }
  }
  remove_marked();
}

void Planner::find_head_matrices() {
  for_each_op(OpKind::head_ids, [&](int i, const Op& op) {
    const std::vector<int> users = readers(op.outputs[0]);
    const auto has_all = [&](int user) {
      const MatrixStep* m = steps_[user].matrix();
      return m && program_.weights[m->parts[0].weight].count == m->used;
    };
    if (!std::ranges::all_of(users, has_all)) return;
    for (const int user : users) steps_[user].matrix()->of_heads = true;
    steps_[i].known_ids = true;
  });
}

// Finds values that pass between running kernels: those between matrices, attention and the norms after them, and
// chosen experts' numbers.
//
// A step that reads only such values need not wait for its predecessor's end if the steps between it and the writer of
// its input do not wait either: each of its blocks has seen all that its predecessor wrote before it writes, so nothing
// is overwritten too early.
//
// A block that sees an expert's share knows that everything before `route` has been read: `route` waits for its
// predecessor or, with a folded router's scores, for all of the projection's result. Expert numbers may arrive earlier.
//
// Blocks of heads' or experts' matrices see only their own input, those of a norm one row, those of a sum its elements.
// Their outputs therefore need separate memory, so they are dataflow values, too.
void Planner::find_dataflow() {
  const bool with_exchanges = exchanges_follow_one_another();
  const auto is_route = [&](ValueId id) { return id != kNone && is_op(writer(id), OpKind::route); };
  // -1: none.
  const auto route_of = [&](const Step& step) {
    if (const MatrixStep* m = step.matrix(); m && is_route(m->ids)) return writer(m->ids);
    if (const auto* sum = step.get<SumStep>())
      for (const SumStep::Term& term : sum->terms)
        if (is_route(term.factors)) return writer(term.factors);
    return -1;
  };
  const auto can_pass_dataflow = [&](const Step& step) {
    if (step.is_op(OpKind::all_reduce)) return with_exchanges;
    if (const MatrixStep* m = step.matrix()) return m->ids == kNone || m->of_heads || is_route(m->ids);
    if (const auto* heads = step.get<HeadsStep>()) return heads->attention != nullptr;
    if (const auto* norm = step.get<NormStep>())
      return norm->residual != kNone && norm->group == program_.values[norm->x].width;
    return step.get<SumStep>() && route_of(step) >= 0;
  };
  dataflow_values_.resize(program_.values.size());
  for (const Step& step : steps_)
    if (can_pass_dataflow(step))
      for (const ValueId id : step.inputs)
        if (const int from = writer(id);
            step.waits_for(id) && from >= 0 && (can_pass_dataflow(steps_[from]) || is_route(id)))
          dataflow_values_[id] = !program_.is_read_after(id);
  for (int i = 0; i < count(); ++i) {
    Step& step = steps_[i];
    const auto arrives = [&](ValueId id) {
      const MatrixStep* m = step.matrix();
      return dataflow_values_[id] || (m && m->of_heads && id == m->ids);
    };
    if (!can_pass_dataflow(step) || !std::ranges::all_of(step.inputs, arrives)) continue;
    int from = route_of(step);
    if (from < 0) {
      from = i;
      for (const ValueId id : step.inputs)
        if (step.waits_for(id)) from = std::min(from, writer(id));
    }
    step.dataflow_input = std::all_of(steps_.begin() + from + 1, steps_.begin() + i,
                                      [](const Step& other) { return other.dataflow_input || other.known_ids; });
    const bool of_experts = step.matrix() && step.matrix()->ids != kNone;
    if (step.dataflow_input &&
        (of_experts || step.get<NormStep>() || step.get<SumStep>() || step.is_op(OpKind::all_reduce)))
      for (const ValueId id : step.outputs) dataflow_values_[id] = !program_.is_read_after(id);
  }
}

// core::plan_buffers takes ops, so this makes one per step.
Plan Planner::finish() {
  Program shadow;
  shadow.values = program_.values;
  shadow.logits = program_.result();
  shadow.hidden = program_.hidden;
  shadow.input = program_.input;
  for (const Step& step : steps_)
    shadow.ops.push_back({step.op->kind, step.op->layer, step.op->name, step.inputs, step.outputs, {}, {}});
  return {std::move(steps_), core::plan_buffers(shadow), std::move(dataflow_values_), std::move(widths_)};
}

const Op* activation_behind(const core::Program& program, const Plan& plan, size_t step) {
  if (step + 1 >= plan.steps.size()) return nullptr;
  const MatrixStep* m = plan.steps[step].matrix();
  const Step& next = plan.steps[step + 1];
  if (!m || m->parts.size() != 1 || m->glu || m->residual != kNone || m->ids != kNone ||
      !next.is_op(OpKind::activate) || !next.op->weights.empty())
    return nullptr;
  const auto& params = std::get<core::ActivationParams>(next.op->params);
  const core::ValueId between = m->parts[0].out;
  const bool fits = fused_glu(params) && params.limit == 0 && params.shift == 0 && next.inputs[0] == between;
  return fits && has_one_reader(program, plan.steps, between) ? next.op : nullptr;
}

void Planner::fuse(bool with_norms) {
  if (with_norms) fold_norms();
  fuse_gate_up();
  fuse_sums();
  fuse_gates_of_norms();
  fuse_residuals();
  fuse_sums_of_norms();
  join_shared_experts();
  merge_siblings();
  fuse_heads();
  fuse_latent_heads();
  find_head_matrices();
}

Plan make_plan(const Program& program, bool fuse, bool fold_norms) {
  Planner planner(program);
  if (fuse) planner.fuse(fold_norms);
  planner.find_dataflow();
  planner.find_folded_routers();
  return planner.finish();
}

} // namespace ridge::kernels::cuda
