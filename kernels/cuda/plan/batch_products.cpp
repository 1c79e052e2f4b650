// The matrices of a batch's plan: which kernel multiplies, and in which form its input comes.
#include "kernels/cuda/plan/batch_planner.h"
#include "kernels/cuda/products/gemm.h"
#include "kernels/cuda/products/scratch_sizes.h"

#include <utility>

namespace ridge::kernels::cuda {

void BatchPlanner::add_matrix(MatrixStep m, const core::Op& op, Way way) {
  const int64_t rows = rows_of(m.x);
  const bool sorted = m.ids != kNone && way != Way::matvec;
  if (!m.beside.empty() && (sorted || !shared_expert_is_choice(in_.limits, rows, m.used))) {
    const MatrixStep shared = m.beside[0];
    m.beside.clear();
    add_matrix(m, op, way);
    const ProductGroup alone{{&shared}, rows, batch_.dataflow_tokens > 0};
    return add_matrix(shared, op, choose(in_, alone).way);
  }
  if (in_.config.observer) {
    KernelCall observe = product_call(Kernel::observe, m, rows);
    observe.op = &op;
    add(observe);
  }
  for (MatrixStep::Part& part : m.parts) part.out = placed(part.out);
  for (MatrixStep& shared : m.beside)
    for (MatrixStep::Part& part : shared.parts) part.out = placed(part.out);
  if (way == Way::matvec) return add_matvec(m, rows);
  m.ids == kNone ? add_product(m, rows, way) : add_experts(m, rows, way);
}

void BatchPlanner::convert(const MatrixStep& m, int64_t rows, int64_t cols, HalfLayout layout) {
  const bool unscaled = converted_ && converted_->unscaled;
  const Converted wanted = {m.x, m.norm, cols, layout, layout == HalfLayout::sorted_wide ? m.ids : kNone, unscaled};
  if (converted_ == wanted) return;
  converted_ = wanted;
  converted_->unscaled = false;
  KernelCall to_half = product_call(Kernel::to_half, m, rows);
  if (layout == HalfLayout::tiles && norms_input(m)) {
    const KernelCall norm = std::move(batch_.calls.back());
    batch_.calls.pop_back();
    to_half.first_step = norm.first_step;
    to_half.op = norm.op;
    to_half.inputs = norm.inputs;
  }
  to_half.cols = cols;
  to_half.layout = layout;
  if (layout == HalfLayout::sorted_wide)
    to_half.tile_tokens = sorted_wide_tile(rows_of(m.x) * m.used, weight(m.parts[0].weight).count);
  to_half.gathers = false;
  if (summed_) {
    to_half.products.push_back(summed_->products[0]);
    to_half.tile_tokens = summed_->tile_tokens;
    to_half.wide = summed_->wide;
    summed_.reset();
  }
  clearer_ = batch_.calls.size();
  add(to_half);
}

// The product in the next step, if that is one of this value.
const MatrixStep* BatchPlanner::next_matrix(ValueId x) const {
  if (step_ + 1 == steps_.size()) return nullptr;
  const Step& next = steps_[step_ + 1];
  return next.kind == Step::Kind::matrix && next.matrix.x == x ? &next.matrix : nullptr;
}

bool BatchPlanner::can_leave_sums(const MatrixStep& m) const {
  const MatrixStep* next = next_matrix(m.parts[0].out);
  return next && next->ids == kNone && (is_tiled(next_way()) || next_way() == Way::wide) && !in_.config.observer &&
         m.parts.size() == 1 && !m.glu && m.residual != kNone && width(m.parts[0].out) % 8 == 0;
}

// A small batch's input: what gate and up wrote as f16, or the conversion of `rows` rows.
void BatchPlanner::add_input(KernelCall& batch, const MatrixStep& m, int64_t rows) {
  if (half_of_ == kNone || m.x != half_of_ || m.norm != kNone || batch.wide)
    return convert(m, rows, weight(m.parts[0].weight).cols,
                   !batch.wide      ? HalfLayout::interleaved
                   : m.ids != kNone ? HalfLayout::sorted_wide
                                    : HalfLayout::wide);
  batch.reads_half = true;
  half_of_ = kNone;
  clearer_.reset();
}

// Gate and up write what down reads as f16, if they can, so that no conversion is needed.
void BatchPlanner::write_half(KernelCall& batch, const MatrixStep& m, int64_t slots) {
  const MatrixStep* next = next_matrix(m.parts[0].out);
  if (batch.tile_tokens > kMostHalfTokens || !m.glu || !next || next->norm != kNone || next->ids != m.ids || !clearer_)
    return;
  const int64_t cols = weight(m.parts[0].weight).rows;
  if (cols % kGemmColumns != 0 || weight(next->parts[0].weight).cols != cols || slots > half_slots(cols)) return;
  if (!is_tiled(next_way())) return;
  KernelCall& to_half = batch_.calls[*clearer_];
  if (slots % to_half.rows != 0) return;
  clearer_.reset();
  to_half.cleared = slots / to_half.rows;
  batch.writes_half = true;
  half_of_ = m.parts[0].out;
}

void BatchPlanner::add_experts(const MatrixStep& m, int64_t rows, Way way) {
  const core::Weight& first = weight(m.parts[0].weight);
  const int64_t slots = rows * m.used;
  const int64_t inputs = width(m.x) != first.cols ? slots : rows;
  KernelCall experts = product_call(Kernel::expert_batch, m, slots);
  experts.tile_tokens = expert_tile(way, slots, first.count);
  if (way == Way::dots && in_.kernels.can_dot_experts(m, slots)) {
    experts.kernel = Kernel::expert_dots;
    if (m.norm != kNone) convert(m, inputs, first.cols, HalfLayout::interleaved);
    return add(experts);
  }
  experts.wide = way == Way::wide;
  add_input(experts, m, inputs);
  write_half(experts, m, slots);
  add(experts);
}

// Behind its input.
void BatchPlanner::add_small_batch(KernelCall batch, const KernelChoices::SmallBatch& fit) {
  const MatrixStep& m = batch.products[0].matrix;
  const bool follows_sibling = std::exchange(sibling_runs_, false);
  add_input(batch, m, batch.rows);
  if (fit.leaves_sums && can_leave_sums(m)) {
    batch.leaves_sums = true;
    summed_ = batch;
  }
  if (!fit.leaves_sums) write_half(batch, m, batch.rows);
  if (!fit.split_columns) { // there is one scratch for partial sums
    batch.sibling_follows = sibling_follows_[step_];
    batch.follows_sibling = follows_sibling;
  }
  sibling_runs_ = batch.sibling_follows;
  add(std::move(batch));
}

// What a product of prompts makes for the next one alone it writes as that one reads it.
void BatchPlanner::write_tiles(KernelCall& product) {
  const ValueId out = product.products[0].matrix.parts[0].out;
  const MatrixStep* next = next_matrix(out);
  const auto reads = [&](const Step& step) { return std::ranges::count(step.inputs, out) > 0; };
  if (!next || next->norm != kNone || next->ids != kNone || in_.config.observer || in_.program.is_read_after(out) ||
      std::ranges::count_if(steps_, reads) != 1 || next_way() != Way::prompt ||
      !has_room_for_tiled_half(product.rows, width(out)))
    return;
  product.writes_half = true;
  tiled_ = out;
}

// An activation becomes part of the prompt's product in front of it.
bool BatchPlanner::activates_product(const core::Op& op) {
  if (op.kind != core::OpKind::activate || batch_.calls.empty() || gathered_.from != kNone) return false;
  KernelCall& before = batch_.calls.back();
  if (before.kernel != Kernel::prompt_product || before.products.size() != 1 ||
      before.step + 1 != static_cast<int32_t>(step_) || activation_behind(in_.program, in_.plan, step_ - 1) != &op)
    return false;
  MatrixStep& m = before.products[0].matrix;
  const std::vector<int32_t>& slot_of = in_.plan.buffers.slot_of_value;
  if (before.reads_half && slot_of[op.outputs[0]] == slot_of[m.x]) return false; // it is read while that is written
  m.glu = std::get<core::ActivationParams>(op.params);
  m.parts[0].out = op.outputs[0];
  before.step = static_cast<int32_t>(step_);
  write_tiles(before);
  return true;
}

// Whether the call in front is a layer norm that none but this product, and siblings right behind it, read.
bool BatchPlanner::norms_input(const MatrixStep& m) const {
  if (batch_.calls.empty() || m.norm != kNone || in_.config.observer || in_.program.is_read_after(m.x)) return false;
  const KernelCall& before = batch_.calls.back();
  if (before.kernel != Kernel::op || before.op->kind != core::OpKind::layer_norm || before.outputs[0] != m.x)
    return false;
  const auto& [epsilon, group, centered] = std::get<core::NormParams>(before.op->params);
  if (!centered || group != width(m.x) || weight(before.op->weights[0]).cols != group || group > kMostNormedColumns)
    return false;
  const auto reads = [&](const Step& step) { return std::ranges::count(step.inputs, m.x) > 0; };
  size_t behind = step_;
  while (behind < steps_.size() && steps_[behind].kind == Step::Kind::matrix && steps_[behind].matrix.x == m.x &&
         steps_[behind].matrix.norm == kNone && steps_[behind].matrix.ids == kNone && ways_[behind] == Way::prompt)
    ++behind;
  return std::ranges::count_if(steps_, reads) == static_cast<std::ptrdiff_t>(behind - step_);
}

void BatchPlanner::add_product(const MatrixStep& m, int64_t rows, Way way) {
  if (way == Way::wide || is_tiled(way)) {
    KernelCall batch = product_call(Kernel::small_batch, m, rows);
    batch.wide = way == Way::wide;
    batch.tile_tokens = batch.wide ? wide_tile_rows(rows) : tile_of(way);
    const KernelChoices::SmallBatch fit =
        batch.wide ? in_.kernels.wide_batch(m, rows) : in_.kernels.small_batch(m, rows, batch.tile_tokens);
    return add_small_batch(std::move(batch), fit);
  }
  sibling_runs_ = false;
  const bool reads_tiles = way == Way::prompt && m.x == std::exchange(tiled_, kNone);
  const HalfLayout layout = way == Way::prompt  ? HalfLayout::tiles
                            : way == Way::bytes ? HalfLayout::bytes
                                                : HalfLayout::rows;
  if (!reads_tiles) convert(m, rows, width(m.x), layout);
  if (way == Way::prompt) return add_prompt(m, rows, reads_tiles);
  if (way == Way::bytes) return add(product_call(Kernel::integer_product, m, rows));
  KernelCall gemm = product_call(Kernel::gemm, m, rows);
  add(gemm);
  if (!m.glu) return;
  gemm.kernel = Kernel::gate_up_glu;
  add(gemm);
}

// With the siblings in front of it, behind the last one.
void BatchPlanner::add_prompt(const MatrixStep& m, int64_t rows, bool reads_tiles) {
  prompt_products_.push_back(product(m));
  if (sibling_follows_[step_]) return;
  KernelCall prompt = call(Kernel::prompt_product);
  prompt.first_step -= static_cast<int32_t>(prompt_products_.size()) - 1;
  prompt.products = std::exchange(prompt_products_, {});
  prompt.rows = rows;
  prompt.reads_half = reads_tiles;
  prompt.unscaled = reads_tiles || converted_->unscaled;
  if (m.glu) write_tiles(prompt);
  add(prompt);
}

// Two siblings go together where there is a kernel for both. A folded router's blocks that choose experts end last, so
// that what comes behind them leaves their multiprocessors free: gpt-oss-20b, whose gate and up would have a block on
// each of an H200's, 1,030 -> 1,042 tokens per second.
void BatchPlanner::add_matvec(const MatrixStep& m, int64_t rows) {
  KernelCall matvec = product_call(Kernel::matvec, m, rows * (m.used + std::ssize(m.beside)));
  if (!batch_.calls.empty() && batch_.calls.back().kernel == Kernel::matvec_router)
    matvec.left_free = static_cast<int>(batch_.calls.back().rows);
  if (std::optional<KernelCall> before = std::exchange(matvec_, std::nullopt)) {
    if (in_.kernels.can_pair(before->products[0].matrix, m, rows)) {
      matvec.kernel = Kernel::matvec_pair;
      matvec.first_step = before->step;
      matvec.products.insert(matvec.products.begin(), before->products[0]);
      return add(matvec);
    }
    add(*before);
  }
  if (folds(step_ + 1)) {
    matvec.kernel = Kernel::matvec_router;
    matvec.products.push_back({steps_[step_ + 1].matrix});
    matvec.op = steps_[step_ + 2].op;
    matvec.inputs = matvec.op->inputs;
    matvec.outputs = matvec.op->outputs;
    return add(matvec);
  }
  if (sibling_follows_[step_] && matvec.rows <= kDataflowTokens && m.ids == kNone && !in_.config.exact)
    matvec_ = matvec;
  else
    add(matvec);
}

} // namespace ridge::kernels::cuda
