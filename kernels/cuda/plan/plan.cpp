#include "kernels/cuda/plan/plan.h"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

using core::Op;
using core::OpKind;
using core::Program;
using core::ValueId;

class Planner {
 public:
  explicit Planner(const Program& program) : program_(program) {
    for (const Op& op : program.ops) steps_.push_back(step_of(op));
  }

  void fold_norms();
  void fuse_gate_up();
  void fuse_sums();
  void fuse_gated_norms();
  void fuse_residuals();
  void merge_siblings();
  void fuse_heads();
  void find_dataflow();
  Plan finish();

 private:
  static Step step_of(const Op& op) {
    Step step{.kind = Step::Kind::op, .op = &op, .inputs = op.inputs, .outputs = op.outputs};
    if (op.kind == OpKind::linear || op.kind == OpKind::expert_linear) {
      step.kind = Step::Kind::matrix;
      step.matrix.x = op.inputs[0];
      step.matrix.parts = {{op.weights[0], op.weights.size() > 1 ? op.weights[1] : kNone, op.outputs[0]}};
      if (op.kind == OpKind::expert_linear) {
        step.matrix.ids = op.inputs[1];
        step.matrix.used = std::get<core::ExpertParams>(op.params).used;
      }
    }
    return step;
  }

  // The step that writes a value, and how many read it (the caller reads some values, too: Program::is_read_after).
  int writer(ValueId id) const {
    for (size_t i = 0; i < steps_.size(); ++i)
      if (std::ranges::count(steps_[i].outputs, id)) return static_cast<int>(i);
    return -1;
  }
  std::vector<int> readers(ValueId id) const {
    std::vector<int> found;
    for (size_t i = 0; i < steps_.size(); ++i)
      if (std::ranges::count(steps_[i].inputs, id)) found.push_back(static_cast<int>(i));
    return found;
  }
  bool read_once(ValueId id) const { return !program_.is_read_after(id) && readers(id).size() == 1; }
  bool is_op(int step, OpKind kind) const {
    return step >= 0 && steps_[step].kind == Step::Kind::op && steps_[step].op && steps_[step].op->kind == kind;
  }
  // A matrix step of one product that nothing is fused behind yet.
  bool is_plain_matrix(int step) const {
    if (step < 0 || steps_[step].kind != Step::Kind::matrix) return false;
    const MatrixStep& m = steps_[step].matrix;
    return m.parts.size() == 1 && !m.swiglu && m.residual == kNone;
  }
  bool same_input(const MatrixStep& a, const MatrixStep& b) const {
    const core::Weight &wa = program_.weights[a.parts[0].weight], &wb = program_.weights[b.parts[0].weight];
    return a.x == b.x && a.norm == b.norm && a.norm_epsilon == b.norm_epsilon && a.ids == b.ids && wa.type == wb.type;
  }
  // What is added up in `id`, with the steps that make it. False where that is more than a step has room for.
  bool collect_terms(ValueId id, float scale, SumStep& sum, std::vector<int>& steps) const;

  // A step whose work another one has taken over; removed at the end of the pass, so that indices stay.
  void mark(int index) {
    Step& step = steps_[index];
    step.op = nullptr;
    step.inputs.clear();
    step.outputs.clear();
  }
  void remove_marked() {
    std::erase_if(steps_, [](const Step& step) { return step.op == nullptr; });
  }

  const Program& program_;
  std::vector<Step> steps_;
  std::vector<bool> dataflow_values_;
};

// norm -> matrices  =>  matrices that norm their own input. Only where nothing else needs the normed value.
void Planner::fold_norms() {
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (!is_op(static_cast<int>(i), OpKind::rms_norm)) continue;
    const Op& norm = *steps_[i].op;
    const auto& params = std::get<core::NormParams>(norm.params);
    const ValueId normed = norm.outputs[0];
    const std::vector<int> users = readers(normed);
    const bool foldable =
        params.group == program_.values[normed].width && !program_.is_read_after(normed) && !users.empty() &&
        std::ranges::all_of(users, [&](int user) {
          const Step& step = steps_[user];
          return step.kind == Step::Kind::matrix && step.matrix.x == normed && step.matrix.norm == kNone;
        });
    if (!foldable) continue;
    for (int user : users) {
      Step& step = steps_[user];
      step.matrix.x = norm.inputs[0];
      step.matrix.norm = norm.weights[0];
      step.matrix.norm_epsilon = params.epsilon;
      std::ranges::replace(step.inputs, normed, norm.inputs[0]);
    }
    mark(static_cast<int>(i));
  }
  remove_marked();
}

// silu(gate x) * up x in one step.
void Planner::fuse_gate_up() {
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (!is_op(static_cast<int>(i), OpKind::glu)) continue;
    const Op& swiglu = *steps_[i].op;
    if (std::get<core::ActivationParams>(swiglu.params) != core::ActivationParams{core::Activation::silu}) continue;
    const int gate = writer(swiglu.inputs[0]), up = writer(swiglu.inputs[1]);
    if (gate == up || !is_plain_matrix(gate) || !is_plain_matrix(up)) continue;
    if (!read_once(swiglu.inputs[0]) || !read_once(swiglu.inputs[1])) continue;
    MatrixStep fused = steps_[gate].matrix;
    const MatrixStep& other = steps_[up].matrix;
    if (!same_input(fused, other)) continue;
    fused.parts.push_back(other.parts[0]);
    fused.swiglu = true;
    for (MatrixStep::Part& part : fused.parts) part.out = swiglu.outputs[0];
    steps_[i].kind = Step::Kind::matrix;
    steps_[i].matrix = fused;
    steps_[i].inputs = steps_[gate].inputs;
    mark(gate);
    mark(up);
  }
  remove_marked();
}

bool Planner::collect_terms(ValueId id, float scale, SumStep& sum, std::vector<int>& steps) const {
  const int from = writer(id);
  const bool own = steps.empty() || read_once(id); // the sum itself, or read by it only
  const auto add_term = [&](SumStep::Term term) {
    sum.terms.push_back(term);
    return sum.terms.size() <= SumStep::kMostTerms;
  };
  const Op* op = from >= 0 && steps_[from].kind == Step::Kind::op ? steps_[from].op : nullptr;
  if (!op || !own) return add_term({id, kNone, false, scale});
  const auto takes = [&] { return steps.push_back(from), true; };
  if (op->kind == OpKind::add) {
    const float inner = std::get<core::AddParams>(op->params).scale;
    return takes() && collect_terms(op->inputs[0], scale, sum, steps) &&
           collect_terms(op->inputs[1], scale * inner, sum, steps);
  }
  if (op->kind == OpKind::expert_sum &&
      program_.values[op->inputs[1]].width == std::get<core::ExpertParams>(op->params).used) // one sum
    return takes() && add_term({op->inputs[0], op->inputs[1], false, scale});
  if (op->kind == OpKind::glu && program_.values[op->inputs[0]].width == 1 &&
      std::get<core::ActivationParams>(op->params) == core::ActivationParams{core::Activation::sigmoid})
    return takes() && add_term({op->inputs[1], op->inputs[0], true, scale});
  return add_term({id, kNone, false, scale});
}

// experts + sigmoid(gate) * shared expert + x in one step. Sums of plain values are left to fuse_residuals.
void Planner::fuse_sums() {
  for (size_t i = steps_.size(); i-- > 0;) {
    if (!is_op(static_cast<int>(i), OpKind::add)) continue;
    SumStep sum;
    std::vector<int> taken;
    const bool fits = collect_terms(steps_[i].op->outputs[0], 1, sum, taken);
    const auto has_factors = [](const SumStep::Term& term) { return term.factors != kNone; };
    if (!fits || std::ranges::none_of(sum.terms, has_factors)) continue;
    Step& step = steps_[i];
    step.kind = Step::Kind::sum;
    step.sum = sum;
    step.inputs.clear();
    for (const SumStep::Term& term : sum.terms) {
      step.inputs.push_back(term.x);
      if (term.factors != kNone) step.inputs.push_back(term.factors);
    }
    for (const int other : taken)
      if (other != static_cast<int>(i)) mark(other);
  }
  remove_marked();
}

// silu(z) * norm(x), or norm(silu(z) * x), in one step.
void Planner::fuse_gated_norms() {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const bool gates_input = is_op(static_cast<int>(i), OpKind::rms_norm);
    if (!gates_input && !is_op(static_cast<int>(i), OpKind::glu)) continue;
    const ValueId between = steps_[i].op->inputs[gates_input ? 0 : 1];
    const int from = writer(between);
    if (!is_op(from, gates_input ? OpKind::glu : OpKind::rms_norm) || !read_once(between)) continue;
    const Op &norm = *steps_[gates_input ? i : from].op, &gate = *steps_[gates_input ? from : i].op;
    if (program_.values[gate.inputs[0]].width != program_.values[gate.inputs[1]].width ||
        std::get<core::ActivationParams>(gate.params) != core::ActivationParams{core::Activation::silu})
      continue;
    const auto& params = std::get<core::NormParams>(norm.params);
    Step& step = steps_[i];
    step.kind = Step::Kind::gated_norm;
    step.gated_norm = {.x = gates_input ? gate.inputs[1] : norm.inputs[0],
                       .gate = gate.inputs[0],
                       .weight = norm.weights[0],
                       .group = params.group,
                       .epsilon = params.epsilon,
                       .gates_input = gates_input};
    step.inputs = {step.gated_norm.x, step.gated_norm.gate};
    mark(from);
  }
  remove_marked();
}

// x + W h in one step.
void Planner::fuse_residuals() {
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (!is_op(static_cast<int>(i), OpKind::add)) continue;
    const Op& add = *steps_[i].op;
    if (std::get<core::AddParams>(add.params).scale != 1) continue;
    for (const size_t side : {1, 0}) {
      const ValueId product = add.inputs[side], residual = add.inputs[1 - side];
      const int from = writer(product);
      if (product == residual || !is_plain_matrix(from) || steps_[from].matrix.ids != kNone || !read_once(product))
        continue;
      steps_[i].kind = Step::Kind::matrix;
      steps_[i].matrix = steps_[from].matrix;
      steps_[i].matrix.residual = residual;
      steps_[i].matrix.parts[0].out = add.outputs[0];
      steps_[i].inputs = steps_[from].inputs;
      steps_[i].inputs.push_back(residual);
      mark(from);
      break;
    }
  }
  remove_marked();
}

// Matrices of one format with the same input in one step, where the first of them stands.
void Planner::merge_siblings() {
  constexpr size_t kMaxParts = 3;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (!is_plain_matrix(static_cast<int>(i)) || steps_[i].matrix.ids != kNone) continue;
    for (size_t j = i + 1; j < steps_.size() && steps_[i].matrix.parts.size() < kMaxParts; ++j) {
      if (!is_plain_matrix(static_cast<int>(j)) || !same_input(steps_[i].matrix, steps_[j].matrix)) continue;
      steps_[i].matrix.parts.push_back(steps_[j].matrix.parts[0]);
      steps_[i].outputs.push_back(steps_[j].outputs[0]);
      steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(j--));
    }
  }
}

// Head norms, rotation of q and k, the cache, and attention where it follows, in one step, where the cache was written.
void Planner::fuse_heads() {
  struct Chain {
    ValueId in;
    const Op *norm = nullptr, *rope = nullptr;
    std::vector<int> steps;
  };
  // value <- rope <- norm, each read by no other step.
  const auto chain_of = [&](ValueId id) {
    Chain chain{id, nullptr, nullptr, {}};
    if (const int at = writer(id); is_op(at, OpKind::rope) && read_once(id)) {
      chain.rope = steps_[at].op;
      chain.steps.push_back(at);
      chain.in = chain.rope->inputs[0];
      if (const int norm = writer(chain.in); is_op(norm, OpKind::rms_norm) && read_once(chain.in)) {
        const auto& rope = std::get<core::RopeParams>(chain.rope->params);
        const core::Weight& weights = program_.weights[steps_[norm].op->weights[0]];
        if (std::get<core::NormParams>(steps_[norm].op->params).group == rope.head_dim &&
            weights.cols == rope.head_dim) { // the same for all heads
          chain.norm = steps_[norm].op;
          chain.steps.push_back(norm);
          chain.in = chain.norm->inputs[0];
        }
      }
    }
    return chain;
  };
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (!is_op(static_cast<int>(i), OpKind::kv_store)) continue;
    const Op& store = *steps_[i].op;
    const int32_t layer = std::get<core::KvParams>(store.params).layer;
    const auto attention = std::ranges::find_if(steps_, [&](const Step& step) {
      return step.kind == Step::Kind::op && step.op && step.op->kind == OpKind::attention &&
             std::get<core::AttentionParams>(step.op->params).layer == layer;
    });
    if (attention == steps_.end()) continue;
    const Chain q = chain_of(attention->op->inputs[0]), k = chain_of(store.inputs[0]);
    if (!q.rope || !k.rope) continue;
    const auto &q_rope = std::get<core::RopeParams>(q.rope->params),
               &k_rope = std::get<core::RopeParams>(k.rope->params);
    const auto epsilon = [](const Op* norm) { return norm ? std::get<core::NormParams>(norm->params).epsilon : 0; };
    if (program_.rope_tables[q_rope.table].span != 1) continue;
    if (q_rope.table != k_rope.table || q_rope.head_dim != k_rope.head_dim || epsilon(q.norm) != epsilon(k.norm))
      continue;
    if (std::ranges::any_of(q.steps, [&](int s) { return s > static_cast<int>(i); })) continue;
    Step& step = steps_[i];
    step.kind = Step::Kind::heads;
    step.heads = {.q_in = q.in,
                  .k_in = k.in,
                  .v_in = store.inputs[1],
                  .q_out = q.rope->outputs[0],
                  .q_norm = q.norm ? q.norm->weights[0] : kNone,
                  .k_norm = k.norm ? k.norm->weights[0] : kNone,
                  .epsilon = epsilon(q.norm),
                  .q_heads = q_rope.heads,
                  .k_heads = k_rope.heads,
                  .head_dim = q_rope.head_dim,
                  .table = q_rope.table,
                  .kv_layer = layer};
    step.inputs = {q.in, k.in, store.inputs[1]};
    step.outputs = {q.rope->outputs[0]};
    if (attention == steps_.begin() + static_cast<std::ptrdiff_t>(i) + 1) {
      step.heads.attention = attention->op;
      step.outputs.push_back(attention->outputs[0]);
      mark(static_cast<int>(i) + 1);
    }
    for (const Chain* chain : {&q, &k})
      for (const int merged : chain->steps) mark(merged);
  }
  remove_marked();
}

// Which values go from one running kernel to the next. A step that reads only such values does not wait for its
// predecessor's end, if those between it and the writer of its input do not either: each of its blocks has seen all of
// what its predecessor wrote before it writes itself, so that nothing in a buffer is overwritten too early.
void Planner::find_dataflow() {
  const auto takes_part = [](const Step& step) {
    return (step.kind == Step::Kind::matrix && step.matrix.ids == kNone) ||
           (step.kind == Step::Kind::heads && step.heads.attention);
  };
  const auto takes_value = [](const Step& step, ValueId id) {
    return step.kind == Step::Kind::heads || step.matrix.x == id;
  };
  dataflow_values_.resize(program_.values.size());
  for (const Step& step : steps_)
    if (takes_part(step))
      for (const ValueId id : step.inputs)
        if (const int from = writer(id); takes_value(step, id) && from >= 0 && takes_part(steps_[from]))
          dataflow_values_[id] = !program_.is_read_after(id);
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    if (!takes_part(step) || !std::ranges::all_of(step.inputs, [&](ValueId id) { return dataflow_values_[id]; }))
      continue;
    int from = static_cast<int>(i);
    for (const ValueId id : step.inputs)
      if (takes_value(step, id)) from = std::min(from, writer(id));
    step.dataflow_input = std::all_of(steps_.begin() + from + 1, steps_.begin() + static_cast<std::ptrdiff_t>(i),
                                      [](const Step& other) { return other.dataflow_input; });
  }
}

// core::plan_buffers knows values by the ops that read and write them; give it ops that say what the steps do.
Plan Planner::finish() {
  Program shadow;
  shadow.values = program_.values;
  shadow.logits = program_.result();
  shadow.hidden = program_.hidden;
  shadow.input = program_.input;
  for (const Step& step : steps_)
    shadow.ops.push_back({step.op->kind, step.op->layer, step.op->name, step.inputs, step.outputs, {}, {}});
  return {std::move(steps_), core::plan_buffers(shadow), std::move(dataflow_values_)};
}

} // namespace

Plan make_plan(const Program& program, bool fuse) {
  Planner planner(program);
  if (fuse) {
    planner.fold_norms();
    planner.fuse_gate_up();
    planner.fuse_sums();
    planner.fuse_gated_norms();
    planner.fuse_residuals();
    planner.merge_siblings();
    planner.fuse_heads();
  }
  planner.find_dataflow();
  return planner.finish();
}

} // namespace ridge::kernels::cuda
