#include "kernels/cuda/plan/batch_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace ridge::kernels::cuda {
namespace {

using core::OpKind;
using core::ValueId;

// Products of different formats with the same input, as q, k and v can be: for prompts and for single tokens they
// become one.
bool are_siblings(const Step& a, const Step& b) {
  const auto plain = [](const Step& s) {
    return s.kind == Step::Kind::matrix && s.matrix.ids == kNone && !s.matrix.glu && s.matrix.residual == kNone;
  };
  return plain(a) && plain(b) && a.matrix.x == b.matrix.x && a.matrix.norm == b.matrix.norm;
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

class BatchPlanner {
 public:
  BatchPlanner(const PlanInputs& in, const PlanShape& shape)
      : in_(in), steps_(in.plan.steps), sibling_follows_(find_siblings(steps_)) {
    batch_.shape = shape;
    batch_.dataflow_values = in.plan.dataflow_values;
  }

  BatchPlan run();

 private:
  // Where a gather of one token's row has nothing to do: its input, which is written as its output at once.
  struct Gathered {
    ValueId from = kNone, to = kNone;
  };

  const PlanShape& shape() const { return batch_.shape; }
  bool overlaps() const { return in_.overlap && in_.limits.overlap; }
  int64_t width(ValueId id) const { return in_.program.values[id].width; }
  int64_t rows_of(ValueId id) const { return in_.program.values[id].gathered ? shape().outputs : shape().tokens; }
  const core::Weight& weight(core::WeightId id) const { return in_.program.weights[id]; }
  bool sorts(int64_t rows, int64_t used, int64_t experts) const { // the choices of one token differ
    return rows > 1 && sorts_experts(in_.config, in_.limits, rows * used, experts);
  }
  ValueId placed(ValueId id) const { return id != kNone && id == gathered_.from ? gathered_.to : id; }

  bool has_rows(const Step& step) const {
    return shape().outputs > 0 || step.outputs.empty() || !in_.program.values[step.outputs[0]].gathered;
  }
  Gathered gathered_behind(size_t step) const;
  void add_step(const Step& step);
  void add_elements(Kernel kernel, const Step& step);
  void add_op(const Step& step);
  void number_exchanges();
  void add_matrix(MatrixStep m, const core::Op& op);
  void add_product(const MatrixStep& m, int64_t rows);
  void add_experts(const MatrixStep& m, int64_t rows);
  void add_matvec(const MatrixStep& m, int64_t rows);
  void add_heads(HeadsStep heads);
  void add_latent(const LatentStep& latent);
  void add_attention(const core::Op& op);
  void add_attention(const core::Op& op, const TokenRun& rows, bool one_run);
  void convert(const MatrixStep& m, int64_t rows, int64_t cols, HalfLayout layout);
  void forget_overwritten(ValueId id);

  // A call of this step.
  KernelCall call(Kernel kernel) const {
    KernelCall call{kernel};
    call.first_step = call.step = static_cast<int32_t>(step_);
    call.gathers = gathered_.from != kNone;
    return call;
  }
  KernelCall::Product product(const MatrixStep& m) const {
    const bool fetched = in_.experts_on_host && m.ids != kNone; // by a kernel in front
    return {m, dataflow_input() && !fetched};
  }
  KernelCall product_call(Kernel kernel, const MatrixStep& m, int64_t rows) const {
    KernelCall made = call(kernel);
    made.products = {product(m)};
    made.rows = rows;
    return made;
  }
  bool dataflow_input() const { return batch_.dataflow_tokens > 0 && steps_[step_].dataflow_input; }
  // No kernel of the first step starts before the batch in front of it is done: attention reads positions and caches
  // early.
  void add(KernelCall call) {
    const bool is_kernel = call.kernel != Kernel::clear_dataflow && call.kernel != Kernel::observe;
    call.overlap = is_kernel && overlaps() && launched_ && call.first_step > 0;
    launched_ |= is_kernel;
    batch_.calls.push_back(std::move(call));
  }

  const PlanInputs& in_;
  const std::vector<Step>& steps_;
  std::vector<bool> sibling_follows_; // by step
  BatchPlan batch_;
  bool launched_ = false;
  size_t step_ = 0; // that calls are added for

  Gathered gathered_; // of this step
  struct Converted {
    ValueId x;
    core::WeightId norm;
    int64_t cols;
    HalfLayout layout;
    bool operator==(const Converted&) const = default;
  };
  std::optional<Converted> converted_; // what the memory for converted inputs has; several matrices may want the same
  std::optional<KernelCall> matvec_;   // a product that may be launched together with the sibling behind it
  std::vector<KernelCall::Product> prompt_products_; // those that may be launched with siblings
  bool sibling_runs_ = false;                        // the small batch before is this one's sibling
  int64_t exchanges_ = 0;
};

BatchPlan BatchPlanner::run() {
  if (overlaps() && in_.dataflow_sync && shape().tokens <= kMatvecTokens) batch_.dataflow_tokens = shape().tokens;
  if (batch_.dataflow_tokens > 0 && std::ranges::count(batch_.dataflow_values, true) > 0)
    add(call(Kernel::clear_dataflow));
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (!has_rows(step)) continue;
    if (gathered_.from != kNone && step.inputs == std::vector{gathered_.from}) continue; // is done
    step_ = i;
    gathered_ = shape().tokens == 1 && shape().outputs == 1 ? gathered_behind(i) : Gathered{};
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
  if (converted_ && slot_of[id] == slot_of[converted_->x]) converted_.reset();
}

void BatchPlanner::add_step(const Step& step) {
  switch (step.kind) {
  case Step::Kind::op: return add_op(step);
  case Step::Kind::matrix: return add_matrix(step.matrix, *step.op);
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

void BatchPlanner::add_op(const Step& step) {
  const core::Op& op = *step.op;
  if (class_of(op.kind) == core::OpClass::attention) return add_attention(op);
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
  if (!step.only_sorted || sorts(plain.rows, used, experts)) add(plain);
  if (in_.experts_on_host && routing) {
    KernelCall fetch = plain;
    fetch.kernel = Kernel::fetch_experts;
    fetch.rows = slots;
    add(fetch);
  }
  if (!sorts(plain.rows, used, experts)) return;
  plain.kernel = Kernel::sort_experts;
  plain.rows = slots;
  plain.experts = experts;
  plain.tile_tokens = expert_tile_tokens(slots, experts);
  add(plain);
}

void BatchPlanner::add_matrix(MatrixStep m, const core::Op& op) {
  const int64_t rows = rows_of(m.x);
  if (!m.beside.empty() && rows > 1) { // only one token's experts are multiplied slot by slot
    const MatrixStep shared = m.beside[0];
    m.beside.clear();
    add_matrix(m, op);
    return add_matrix(shared, op);
  }
  if (in_.config.observer) {
    KernelCall observe = product_call(Kernel::observe, m, rows);
    observe.op = &op;
    add(observe);
  }
  for (MatrixStep::Part& part : m.parts) part.out = placed(part.out);
  for (MatrixStep& shared : m.beside)
    for (MatrixStep::Part& part : shared.parts) part.out = placed(part.out);
  if (m.ids == kNone && has_tensor_products(in_.config, in_.limits) && rows > kMatvecTokens)
    return add_product(m, rows);
  const core::Weight& first = weight(m.parts[0].weight);
  const int64_t slots = rows * m.used;
  if (m.ids != kNone && sorts(rows, m.used, first.count) &&
      in_.kernels.small_batch(m, slots, expert_tile_tokens(slots, first.count)).fits)
    return add_experts(m, rows);
  add_matvec(m, rows);
}

void BatchPlanner::convert(const MatrixStep& m, int64_t rows, int64_t cols, HalfLayout layout) {
  const Converted wanted = {m.x, m.norm, cols, layout};
  if (converted_ == wanted) return;
  converted_ = wanted;
  KernelCall to_half = product_call(Kernel::to_half, m, rows);
  to_half.cols = cols;
  to_half.layout = layout;
  to_half.gathers = false;
  add(to_half);
}

void BatchPlanner::add_experts(const MatrixStep& m, int64_t rows) {
  const core::Weight& first = weight(m.parts[0].weight);
  const int64_t slots = rows * m.used;
  convert(m, width(m.x) != first.cols ? slots : rows, first.cols, HalfLayout::interleaved);
  KernelCall experts = product_call(Kernel::expert_batch, m, slots);
  experts.tile_tokens = expert_tile_tokens(slots, first.count);
  add(experts);
}

void BatchPlanner::add_product(const MatrixStep& m, int64_t rows) {
  const bool small = in_.limits.small_batch && rows <= kBatchTokens,
             tiled = has_prompt_products(in_.config, in_.limits) && !small;
  const bool follows_sibling = std::exchange(sibling_runs_, false);
  for (int tile = rows <= 8 ? 8 : rows <= 16 ? 16 : 32; small && tile >= 8; tile /= 2) {
    const KernelChoices::SmallBatch fit = in_.kernels.small_batch(m, rows, tile);
    if (!fit.fits) continue;
    KernelCall batch = product_call(Kernel::small_batch, m, rows);
    batch.tile_tokens = tile;
    convert(m, rows, width(m.x), HalfLayout::interleaved);
    if (!fit.split_columns) { // there is one scratch for partial sums
      batch.sibling_follows = sibling_follows_[step_];
      batch.follows_sibling = follows_sibling;
    }
    sibling_runs_ = batch.sibling_follows;
    return add(batch);
  }
  convert(m, rows, width(m.x), tiled ? HalfLayout::tiles : HalfLayout::rows);
  if (tiled) {
    prompt_products_.push_back(product(m));
    if (sibling_follows_[step_]) return;
    KernelCall prompt = call(Kernel::prompt_product);
    prompt.first_step -= static_cast<int32_t>(prompt_products_.size()) - 1;
    prompt.products = std::exchange(prompt_products_, {});
    prompt.rows = rows;
    return add(prompt);
  }
  KernelCall gemm = product_call(Kernel::gemm, m, rows);
  add(gemm);
  if (!m.glu) return;
  gemm.kernel = Kernel::gate_up_glu;
  add(gemm);
}

// Two siblings go together where there is a kernel for both.
void BatchPlanner::add_matvec(const MatrixStep& m, int64_t rows) {
  KernelCall matvec = product_call(Kernel::matvec, m, rows * m.used + std::ssize(m.beside));
  if (std::optional<KernelCall> before = std::exchange(matvec_, std::nullopt)) {
    if (in_.kernels.can_pair(before->products[0].matrix, m)) {
      matvec.kernel = Kernel::matvec_pair;
      matvec.first_step = before->step;
      matvec.products.insert(matvec.products.begin(), before->products[0]);
      return add(matvec);
    }
    add(*before);
  }
  if (sibling_follows_[step_] && matvec.rows == 1 && !in_.config.exact)
    matvec_ = matvec;
  else
    add(matvec);
}

void BatchPlanner::add_heads(HeadsStep heads) {
  KernelCall rope = call(Kernel::rope_store);
  heads.q_out = placed(heads.q_out);
  rope.heads = heads;
  rope.rows = shape().tokens;
  rope.dataflow_input = dataflow_input();
  if (heads.attention && shape().distinct_streams && in_.kernels.can_rope_in_attention(heads)) {
    rope.kernel = Kernel::rope_attention;
    rope.op = heads.attention;
    rope.inputs = {heads.attention->inputs[0]};
    rope.outputs = {placed(heads.attention->outputs[0])};
    return add(rope);
  }
  if (shape().tokens >= kPromptTokensAtLeast && in_.kernels.can_rope_prompts(heads)) rope.kernel = Kernel::prompt_rope;
  add(rope);
  if (heads.attention) add_attention(*heads.attention);
}

void BatchPlanner::add_latent(const LatentStep& latent) {
  KernelCall store = call(Kernel::latent_store);
  store.latent = latent;
  store.rows = shape().tokens;
  add(store);
}

// Pieces of prompts, each for itself, and the tokens between them.
void BatchPlanner::add_attention(const core::Op& op) {
  const bool splits = op.kind == OpKind::attention && in_.kernels.has_fast_attention(op);
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
  const bool prompt = op.kind == OpKind::attention && has_prompt_products(in_.config, in_.limits) && one_run &&
                      rows.tokens >= kPromptTokensAtLeast && in_.kernels.can_attend_prompts(op);
  const auto kernel = [&] {
    if (op.kind == OpKind::index_choice) return Kernel::index_choice;
    if (op.kind == OpKind::sparse_attention) return Kernel::plain_attention;
    const bool fast = op.kind != OpKind::chosen_attention && in_.kernels.has_fast_attention(op);
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
  add(attention);
}

} // namespace

BatchPlan plan_for(const PlanInputs& inputs, const PlanShape& shape) { return BatchPlanner(inputs, shape).run(); }

} // namespace ridge::kernels::cuda
