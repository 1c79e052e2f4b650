#include "kernels/cuda/exchange/exchange.h"
#include "kernels/cuda/plan/batch_planner.h"
#include "kernels/cuda/products/gemm.h"
#include "kernels/cuda/products/scratch_sizes.h"

#include <algorithm>
#include <utility>

namespace ridge::kernels::cuda {

using core::OpKind;

namespace {

// Products of different formats with the same input, as q, k and v can be: for prompts and for single tokens they
// become one.
bool are_siblings(const Step& a, const Step& b) {
  const auto plain = [](const Step& s) {
    return s.kind == Step::Kind::matrix && s.matrix.ids == kNone && !s.matrix.glu && s.matrix.residual == kNone;
  };
  return plain(a) && plain(b) && a.matrix.x == b.matrix.x && a.matrix.norm == b.matrix.norm;
}

bool attends(const Step& step) {
  return step.kind == Step::Kind::heads ? step.heads.attention != nullptr
                                        : step.kind == Step::Kind::op && step.op->kind == OpKind::attention;
}

// By step: whether the next step is a sibling that one kernel has room for.
std::vector<bool> find_siblings(const std::vector<Step>& steps) {
  std::vector<bool> follows(steps.size());
  size_t matrices = 0;
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    matrices += steps[i].matrix.parts.size();
    follows[i] =
        are_siblings(steps[i], steps[i + 1]) && matrices + steps[i + 1].matrix.parts.size() <= kMostSiblingMatrices;
    if (!follows[i]) matrices = 0;
  }
  return follows;
}

} // namespace

bool sees_ahead(const core::AttentionParams& params, const PlanShape& shape) {
  return !params.causal || (shape.has_blocks && params.block_ahead);
}

BatchPlanner::BatchPlanner(const PlanInputs& in, const PlanShape& shape)
    : in_(in), steps_(in.plan.steps), sibling_follows_(find_siblings(steps_)), ways_(steps_.size(), Way::matvec) {
  batch_.shape = shape;
  batch_.dataflow_values = in.plan.dataflow_values;
  if (overlaps() && in_.dataflow_sync && shape.tokens <= kDataflowTokens) batch_.dataflow_tokens = shape.tokens;
  choose_ways();
}

// One way for siblings, which share an input, and one for all matrices of a layer's experts, which share its order.
void BatchPlanner::choose_ways() {
  std::map<ValueId, std::vector<int32_t>> of_experts;
  std::vector<int32_t> siblings;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.kind != Step::Kind::matrix || !has_rows(step)) continue;
    const auto at = static_cast<int32_t>(i);
    if (step.matrix.ids != kNone) {
      of_experts[step.matrix.ids].push_back(at);
      continue;
    }
    siblings.push_back(at);
    if (!sibling_follows_[i]) choose_way(std::exchange(siblings, {}));
  }
  for (const auto& [ids, steps] : of_experts) choose_way(steps);
}

void BatchPlanner::choose_way(const std::vector<int32_t>& steps) {
  ProductGroup group{.dataflow = batch_.dataflow_tokens > 0};
  for (const int32_t step : steps) group.products.push_back(&steps_[step].matrix);
  const MatrixStep& first = *group.products[0];
  group.rows = rows_of(first.x) * first.used;
  group.after_attention = steps[0] > 0 && attends(steps_[steps[0] - 1]);
  ProductChoice choice = choose(in_, group, forced_way(steps));
  for (const int32_t step : steps) ways_[step] = choice.way;
  batch_.products.push_back({steps, std::move(choice)});
}

std::optional<Way> BatchPlanner::forced_way(const std::vector<int32_t>& steps) const {
  if (in_.forced.empty()) return std::nullopt;
  auto found = in_.forced.find("");
  if (found == in_.forced.end()) found = in_.forced.find(name_of_products(in_.program, in_.plan, steps));
  return found == in_.forced.end() ? std::nullopt : std::optional(found->second);
}

Way BatchPlanner::way_of_experts(ValueId ids) const {
  for (size_t i = 0; i < steps_.size(); ++i)
    if (steps_[i].kind == Step::Kind::matrix && steps_[i].matrix.ids == ids) return ways_[i];
  return Way::matvec;
}

BatchPlan BatchPlanner::run() {
  if (batch_.dataflow_tokens > 0 && std::ranges::count(batch_.dataflow_values, true) > 0)
    add(call(Kernel::clear_dataflow));
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (!has_rows(step)) continue;
    if (gathered_.from != kNone && step.inputs == std::vector{gathered_.from}) continue; // is done
    step_ = i;
    gathered_ = shape().tokens == 1 && shape().outputs == 1 ? gathered_behind(i) : Gathered{};
    if (folds(i)) continue; // is done
    add_step(step);
    for (const ValueId id : step.outputs) {
      forget_overwritten(id);
      forget_overwritten(placed(id));
    }
  }
  gathered_ = {};
  if (exchanges_ > 0) number_exchanges();
  for (int64_t output = 0; shape().sample && output < shape().outputs; ++output) {
    KernelCall sample = call(Kernel::sample);
    sample.output = output;
    add(sample);
  }
  return std::move(batch_);
}

// Numbers go on from step to step, so they are made on the device.
void BatchPlanner::number_exchanges() {
  step_ = 0;
  KernelCall numbers = call(Kernel::number_exchanges);
  numbers.place = exchanges_;
  batch_.calls.insert(batch_.calls.begin(), numbers);
}

// What the step behind this one gathers, if no other step reads it. Values of gathered rows have memory of their own,
// of which this step uses none.
BatchPlanner::Gathered BatchPlanner::gathered_behind(size_t step) const {
  if (step + 1 == steps_.size()) return {};
  const Step& next = steps_[step + 1];
  if (next.kind != Step::Kind::op || next.op->kind != OpKind::gather) return {};
  const ValueId from = next.inputs[0];
  const bool read_later = std::any_of(steps_.begin() + static_cast<std::ptrdiff_t>(step) + 2, steps_.end(),
                                      [&](const Step& s) { return std::ranges::count(s.inputs, from) > 0; });
  if (read_later || in_.program.is_read_after(from) || std::ranges::count(steps_[step].outputs, from) == 0) return {};
  return {from, next.outputs[0]};
}

void BatchPlanner::forget_overwritten(ValueId id) {
  const std::vector<int32_t>& slot_of = in_.plan.buffers.slot_of_value;
  if (converted_ && id != converted_->x && slot_of[id] == slot_of[converted_->x]) converted_.reset();
  if (half_of_ != kNone && id != half_of_ && slot_of[id] == slot_of[half_of_]) half_of_ = kNone;
}

void BatchPlanner::add_step(const Step& step) {
  switch (step.kind) {
  case Step::Kind::op: return add_op(step);
  case Step::Kind::matrix: return add_matrix(step.matrix, *step.op, ways_[step_]);
  case Step::Kind::heads: return add_heads(step.heads);
  case Step::Kind::latent: return add_latent(step.latent);
  case Step::Kind::sum: return add_elements(Kernel::sum, step);
  case Step::Kind::norm: return add_elements(Kernel::norm, step);
  }
}

void BatchPlanner::add_elements(Kernel kernel, const Step& step) {
  KernelCall elements = call(kernel);
  elements.sum = step.sum;
  elements.norm = step.norm;
  elements.dataflow_input = dataflow_input();
  elements.outputs = {placed(step.outputs[0])};
  elements.rows = rows_of(step.outputs[0]);
  add(elements);
}

// A long prompt's product sends columns of its result while it computes others, if what it makes is summed next.
bool BatchPlanner::joins_product(const core::Op& op) {
  if (op.kind != OpKind::all_reduce || batch_.calls.empty()) return false;
  if (!summed_in_parts(rows_of(op.outputs[0]), width(op.outputs[0]))) return false;
  KernelCall& before = batch_.calls.back();
  if (before.kernel != Kernel::prompt_product || before.products.size() > 1) return false;
  const MatrixStep& m = before.products[0].matrix;
  if (m.glu || m.parts.size() > 1 || m.parts[0].out != op.inputs[0]) return false;
  before.step = static_cast<int32_t>(step_);
  before.op = &op;
  before.inputs = op.inputs;
  before.outputs = op.outputs;
  before.place = exchanges_++;
  return true;
}

void BatchPlanner::add_op(const Step& step) {
  const core::Op& op = *step.op;
  if (class_of(op.kind) == core::OpClass::attention) return add_attention(op);
  if (joins_product(op) || activates_product(op)) return;
  KernelCall plain = call(Kernel::op);
  if (class_of(op.kind) == core::OpClass::exchange) {
    plain.kernel = Kernel::exchange;
    plain.place = exchanges_++;
    plain.dataflow_input = dataflow_input();
  }
  plain.op = &op;
  plain.inputs = op.inputs;
  for (const ValueId id : op.outputs) plain.outputs.push_back(placed(id));
  plain.rows = op.outputs.empty() ? shape().tokens : rows_of(op.outputs[0]);
  if (op.kind != OpKind::route && op.kind != OpKind::head_ids) return add(plain);
  const auto* routing = std::get_if<core::RouteParams>(&op.params);
  const int64_t used = width(op.outputs[0]), experts = routing ? routing->experts : used, slots = plain.rows * used;
  const Way way = way_of_experts(op.outputs[0]);
  const bool sorted = way != Way::matvec;
  const bool done = folds(step_ - 1); // by the kernel of its scores
  if (!done && (!step.only_sorted || sorted)) add(plain);
  if (in_.experts_on_host && routing) {
    KernelCall fetch = plain;
    fetch.kernel = Kernel::fetch_experts;
    fetch.rows = slots;
    add(fetch);
  }
  if (!sorted) return;
  plain.kernel = Kernel::sort_experts;
  plain.rows = slots;
  plain.experts = experts;
  plain.tile_tokens = expert_tile(way, slots, experts);
  add(plain);
}

void BatchPlanner::add_heads(HeadsStep heads) {
  KernelCall rope = call(Kernel::rope_store);
  heads.q_out = placed(heads.q_out);
  rope.heads = heads;
  rope.rows = shape().tokens;
  rope.dataflow_input = dataflow_input();
  const bool one_run = !shape().distinct_streams && shape().tile_tokens > 1 && shape().tokens <= kAttentionRows;
  const bool ahead = heads.attention && looks_ahead(*heads.attention);
  if (heads.attention && !ahead && (shape().distinct_streams || one_run) &&
      in_.kernels.can_rope_in_attention(heads, one_run)) {
    rope.kernel = Kernel::rope_attention;
    rope.one_run = one_run;
    rope.op = heads.attention;
    rope.inputs = {heads.attention->inputs[0]};
    rope.outputs = {placed(heads.attention->outputs[0])};
    write_half(rope);
    leave_room(rope);
    return add(rope);
  }
  if (shape().tokens >= kPromptTokensAtLeast && in_.kernels.can_rope_prompts(heads)) rope.kernel = Kernel::prompt_rope;
  add(rope);
  if (heads.attention) add_attention(*heads.attention);
}

// A product has a block on every multiprocessor, and attention's blocks have no room beside those: they would start
// when its first ones end, and be ready 2 µs after its last one. So it leaves some multiprocessors to attention where
// its other blocks have little more to do. Tokens per second with 0 / 4 / 8 left free on an H200: qwen3-30b-a3b (4 KV
// heads) 735 / 778 / 785, an 8B (8) 666 / 677 / 678; with 0 / 2 / 4 qwen3.6-35b-a3b (2) 749 / 753 / 760.
void BatchPlanner::leave_room(const KernelCall& attention) {
  if (!attention.dataflow_input || batch_.calls.empty()) return;
  KernelCall& product = batch_.calls.back();
  if (product.kernel != Kernel::matvec && product.kernel != Kernel::matvec_pair) return;
  int64_t rows = 0;
  for (const KernelCall::Product& of : product.products)
    for (const MatrixStep::Part& part : of.matrix.parts) rows += weight(part.weight).rows;
  if (rows < 16 * in_.limits.sm_count) return; // with so few for each, the other blocks would take much longer
  const int64_t heads = in_.program.kv_layers[attention.heads.kv_layer].heads;
  product.left_free = static_cast<int>(std::min<int64_t>(2 * heads, in_.limits.sm_count / 16));
}

void BatchPlanner::add_latent(const LatentStep& latent) {
  KernelCall store = call(Kernel::latent_store);
  store.latent = latent;
  store.rows = shape().tokens;
  add(store);
}

// Pieces of prompts, each for itself, and the tokens between them.
void BatchPlanner::add_attention(const core::Op& op) {
  const bool splits = op.kind == OpKind::attention &&
                      (looks_ahead(op) ? in_.kernels.can_attend_prompts(op) : in_.kernels.has_fast_attention(op));
  if (!splits || shape().prompts.empty()) return add_attention(op, {0, shape().tokens}, shape().tile_tokens > 1);
  int64_t first = 0;
  for (const TokenRun& prompt : shape().prompts) {
    if (prompt.first > first) add_attention(op, {first, prompt.first - first}, false);
    add_attention(op, prompt, true);
    first = prompt.first + prompt.tokens;
  }
  if (first < shape().tokens) add_attention(op, {first, shape().tokens - first}, false);
}

void BatchPlanner::add_attention(const core::Op& op, const TokenRun& rows, bool one_run) {
  const bool prompt = op.kind == OpKind::attention && has_prompt_attention(in_.config, in_.limits) && one_run &&
                      rows.tokens >= kPromptTokensAtLeast && in_.kernels.can_attend_prompts(op);
  const auto kernel = [&] {
    if (op.kind == OpKind::index_choice) return Kernel::index_choice;
    if (op.kind == OpKind::sparse_attention) return Kernel::plain_attention;
    if (op.kind == OpKind::mixed_attention) return Kernel::plain_latent_attention;
    const bool fast = op.kind != OpKind::chosen_attention && !looks_ahead(op) && in_.kernels.has_fast_attention(op);
    if (op.kind != OpKind::attention) return fast ? Kernel::latent_attention : Kernel::plain_latent_attention;
    return prompt ? Kernel::prompt_attention : fast ? Kernel::attention : Kernel::plain_attention;
  };
  KernelCall attention = call(kernel());
  attention.op = &op;
  attention.inputs = op.inputs;
  attention.outputs = {placed(op.outputs[0])};
  attention.rows = rows.tokens;
  attention.first_row = rows.first;
  attention.one_run = one_run;
  if (attention.kernel == Kernel::attention || attention.kernel == Kernel::prompt_attention) write_half(attention);
  add(attention);
}

// Attention over values in f16 gives results that have room in f16. Where a product on tensor cores comes next, it
// writes them as that product reads them.
void BatchPlanner::write_half(KernelCall& attention) {
  const ValueId out = attention.op->outputs[0];
  const MatrixStep* next = next_matrix(out);
  if (!next || next->norm != kNone || next->ids != kNone) return;
  const bool prompt = attention.kernel == Kernel::prompt_attention;
  if (attention.rows != shape().tokens || width(out) % (prompt ? kTileColumns : kGemmColumns) != 0) return;
  std::optional<HalfLayout> layout;
  if (prompt && next_way() == Way::prompt) layout = HalfLayout::tiles;
  if (!prompt && next_way() == Way::wide) layout = HalfLayout::wide;
  if (!prompt && is_tiled(next_way())) layout = HalfLayout::interleaved;
  if (!layout || in_.config.observer || !in_.kernels.attention_writes_half(*attention.op)) return;
  attention.writes_half = true;
  attention.layout = *layout;
  converted_ = {.x = out, .norm = kNone, .cols = width(out), .layout = *layout, .unscaled = true};
}

BatchPlan plan_for(const PlanInputs& inputs, const PlanShape& shape) { return BatchPlanner(inputs, shape).run(); }

} // namespace ridge::kernels::cuda
