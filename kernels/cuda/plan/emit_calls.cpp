// The calls of each step in isolation; call_passes.cpp handles neighbours.
#include "kernels/cuda/plan/batch_planning.h"
#include "kernels/cuda/products/scratch_sizes.h"

#include <algorithm>
#include <utility>

namespace ridge::kernels::cuda {

using core::OpKind;

namespace {

class Emitter {
 public:
  explicit Emitter(const Planning& planning) : p_(planning) {}

  Calls run() {
    if ((p_.dataflow_tokens > 0 || &p_.plan == p_.in.adapted) && std::ranges::count(p_.plan.dataflow_values, true) > 0)
      add(ClearDataflow{});
    for (; step_ < std::ssize(p_.steps); ++step_)
      if (p_.has_rows(p_.steps[step_]) && !p_.is_absorbed(step_)) add_step(p_.steps[step_]);
    --step_;
    for (int64_t output = 0; p_.shape.sample && output < p_.shape.outputs; ++output) add(Sample{output});
    return std::move(calls_);
  }

 private:
  void add(CallWork work, int32_t more_steps = 0) {
    const bool of_step = !std::holds_alternative<ClearDataflow>(work) && !std::holds_alternative<Sample>(work);
    calls_.push_back({step_, step_ + more_steps, std::move(work), false, of_step && p_.gathers(step_)});
  }
  const AttentionFit& fit() const { return p_.attention[step_]; }
  bool dataflow_input() const { return p_.dataflow_input(step_); }

  void add_step(const Step& step) {
    std::visit([&](const auto& work) { add_work(work, step); }, step.work);
  }
  void add_work(const MatrixStep& m, const Step& step) {
    add_matrix(m, *step.op, p_.ways[step_]);
    const CpuExpertLayer* cpu = m.ids == kNone ? nullptr : p_.cpu_experts(m.ids);
    if (cpu && m.parts[0].out == cpu->out) add(ReceiveExperts{m.ids, p_.placed(cpu->out), p_.rows_of(m.x) * m.used});
  }
  void add_work(const LatentStep& latent, const Step&) { add(LatentStore{latent, p_.shape.tokens}); }
  void add_work(const SumStep& sum, const Step& step) { add(elements<Sum>(sum, step)); }
  void add_work(const NormStep& norm, const Step& step) { add(elements<Norm>(norm, step)); }
  template <typename Work>
  Work elements(const auto& what, const Step& step) const {
    const ValueId out = step.outputs[0];
    return {what, p_.placed(out), p_.rows_of(out), dataflow_input()};
  }

  void add_work(const OpStep&, const Step& step) {
    const core::Op& op = *step.op;
    if (class_of(op.kind) == core::OpClass::attention) return add_attention(op);
    const int64_t rows = op.outputs.empty() ? p_.shape.tokens : p_.rows_of(op.outputs[0]);
    if (class_of(op.kind) == core::OpClass::exchange)
      return add(Exchange{&op, op.inputs[0], p_.placed(op.outputs[0]), rows, dataflow_input()});
    const bool chooses = op.kind == OpKind::route || op.kind == OpKind::head_ids;
    const ProductKernel way = chooses ? p_.way_of_experts(op.outputs[0]) : ProductKernel::matvec;
    const bool by_its_scores = chooses && p_.folded_router(step_ - 1).has_value();
    if (!by_its_scores && !step.known_ids) add(plain(op, rows));
    if (chooses) add_choice(op, rows, way, step.known_ids);
  }
  PlainOp plain(const core::Op& op, int64_t rows) const {
    PlainOp plain{&op, {}, rows};
    for (const ValueId id : op.outputs) plain.outputs.push_back(p_.placed(id));
    return plain;
  }
  void add_choice(const core::Op& op, int64_t rows, ProductKernel way, bool of_heads) {
    const auto* routing = std::get_if<core::RouteParams>(&op.params);
    const ValueId ids = p_.placed(op.outputs[0]);
    const int64_t used = p_.width(op.outputs[0]), experts = routing ? routing->experts : used, slots = rows * used;
    if (p_.in.experts_on_host && routing) {
      const CpuExpertLayer* cpu = p_.cpu_experts(op.outputs[0]);
      add(cpu ? FetchExperts{ids, slots, cpu->x, p_.rows_of(cpu->x)} : FetchExperts{ids, slots});
    }
    if (way != ProductKernel::matvec)
      add(SortExperts{ids, slots, experts, Planning::expert_tile(way, slots, experts, of_heads), of_heads});
  }

  void add_matrix(MatrixStep m, const core::Op& op, ProductKernel way) {
    const int64_t rows = p_.rows_of(m.x);
    const bool sorted = m.ids != kNone && way != ProductKernel::matvec;
    if (!m.shared_expert.empty() && (sorted || !shared_expert_is_choice(p_.in.limits, rows, m.used))) {
      const MatrixStep shared = m.shared_expert[0];
      m.shared_expert.clear();
      add_matrix(m, op, way);
      const ProductGroup alone{{&shared}, rows, p_.dataflow_tokens > 0};
      return add_matrix(shared, op, choose(p_.in, alone).way);
    }
    if (p_.in.config.observer) add(Observe{m, &op, rows});
    for (MatrixStep::Part& part : m.parts) part.out = p_.placed(part.out);
    for (MatrixStep& shared : m.shared_expert)
      for (MatrixStep::Part& part : shared.parts) part.out = p_.placed(part.out);
    if (way == ProductKernel::matvec) return add_matvec(m, rows);
    m.ids == kNone ? add_product(m, rows, way) : add_experts(m, rows * m.used, way);
  }
  Product product(const MatrixStep& m) const {
    const bool fetched = p_.in.experts_on_host && m.ids != kNone;
    return {m, dataflow_input() && !fetched};
  }
  void add_matvec(const MatrixStep& m, int64_t rows) {
    rows *= m.used + std::ssize(m.shared_expert);
    const std::optional<RouterCut> cut = p_.folded_router(step_ + 1);
    if (!cut) return add(Matvec{product(m), rows});
    add(MatvecRouter{product(m), *p_.steps[step_ + 1].matrix(), step_ + 1, p_.steps[step_ + 2].op, rows, *cut}, 2);
  }
  void add_product(const MatrixStep& m, int64_t rows, ProductKernel way) {
    switch (way) {
    case ProductKernel::prompt: return add(PromptProduct{{product(m)}, rows});
    case ProductKernel::bytes: return add(IntegerProduct{product(m), rows});
    case ProductKernel::gemm:
      add(Gemm{product(m), rows});
      if (m.glu) add(GateUpGlu{m, rows});
      return;
    default: break;
    }
    const bool wide = way == ProductKernel::wide;
    const int tile = wide ? wide_tile_rows(rows) : tile_of(way);
    const ProductDesc desc = p_.desc(m, rows);
    add(SmallBatch{product(m), rows, tile, wide,
                   (wide ? cut_wide(p_.in.limits, desc) : cut_tiles(p_.in.limits, desc, tile)).value()});
  }
  void add_experts(const MatrixStep& m, int64_t slots, ProductKernel way) {
    const int tile = Planning::expert_tile(way, slots, p_.first_weight(m).count, m.of_heads);
    const ProductDesc desc = p_.desc(m, slots);
    if (way == ProductKernel::dots)
      if (const std::optional<DotsCut> cut = cut_dots(p_.in.limits, desc))
        return add(ExpertDots{product(m), slots, tile, *cut});
    const bool wide = way == ProductKernel::wide;
    const int64_t experts = p_.first_weight(m).count;
    add(ExpertBatch{{product(m), slots, tile, wide,
                     !wide        ? cut_tiles(p_.in.limits, desc, tile).value()
                     : m.of_heads ? cut_heads(p_.in.limits, desc, experts)
                                  : cut_sorted_wide(desc, experts, tile)}});
  }

  bool looks_ahead(const core::Op& attention) const {
    const auto* params = std::get_if<core::AttentionParams>(&attention.params);
    return params && sees_ahead(*params, p_.shape);
  }
  void add_work(HeadsStep heads, const Step&) {
    const PlanShape& shape = p_.shape;
    heads.q_out = p_.placed(heads.q_out);
    const RopeStore rope{heads, shape.tokens, dataflow_input()};
    const bool one_run = !shape.distinct_streams && shape.tile_tokens > 1 && shape.tokens <= kAttentionRows;
    const core::Op* op = heads.attention;
    if (op && !invariant() && !looks_ahead(*op) && (shape.distinct_streams || one_run) &&
        (one_run ? fit().ropes_run : fit().ropes_tokens))
      return add(RopeAttention{rope, {op, p_.placed(op->outputs[0]), shape.tokens, 0, one_run}});
    if (!invariant() && shape.tokens >= kPromptTokensAtLeast && fit().ropes_prompts)
      add(PromptRope{rope});
    else
      add(rope);
    if (op) add_attention(*op);
  }

  bool invariant() const { return p_.in.config.batch_invariant; }
  void add_attention(const core::Op& op) {
    const PlanShape& shape = p_.shape;
    if (invariant() && op.kind == OpKind::attention && !looks_ahead(op) && fit().fast) {
      for (int64_t first = 0; first < shape.tokens; first += kInvariantTokens)
        add_attention(op, {first, std::min<int64_t>(kInvariantTokens, shape.tokens - first)}, false);
      return;
    }
    const bool splits = op.kind == OpKind::attention && (looks_ahead(op) ? fit().prompts : fit().fast);
    if (!splits || shape.prompts.empty()) return add_attention(op, {0, shape.tokens}, shape.tile_tokens > 1);
    int64_t first = 0;
    for (const TokenRun& prompt : shape.prompts) {
      if (prompt.first > first) add_attention(op, {first, prompt.first - first}, false);
      add_attention(op, prompt, true);
      first = prompt.first + prompt.tokens;
    }
    if (first < shape.tokens) add_attention(op, {first, shape.tokens - first}, false);
  }
  void add_attention(const core::Op& op, const TokenRun& rows, bool one_run) {
    const ValueId out = p_.placed(op.outputs[0]);
    const Attention attention{&op, out, rows.tokens, rows.first, one_run};
    const LatentAttention latent{&op, out, rows.tokens};
    const bool fast = !looks_ahead(op) && fit().fast;
    switch (op.kind) {
    case OpKind::index_choice: return add(IndexChoice{&op, out, rows.tokens});
    case OpKind::sparse_attention: return add(PlainAttention{attention});
    case OpKind::attention: break;
    default: return fast ? add(latent) : add(PlainLatentAttention{latent});
    }
    if (has_prompt_attention(p_.in.config, p_.in.limits) && one_run && rows.tokens >= kPromptTokensAtLeast &&
        fit().prompts)
      return add(PromptAttention{attention});
    fast ? add(attention) : add(PlainAttention{attention});
  }

  const Planning& p_;
  Calls calls_;
  int32_t step_ = 0;
};

} // namespace

Calls emit_calls(const Planning& planning) { return Emitter(planning).run(); }

} // namespace ridge::kernels::cuda
