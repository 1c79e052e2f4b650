// The matrices of a batch's plan: which kernel multiplies, and in which form its input comes.
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/plan/batch_planner.h"
#include "kernels/cuda/plan/scratch_sizes.h"
#include "kernels/cuda/plan/wide_cut.h"

#include <utility>

namespace ridge::kernels::cuda {

void BatchPlanner::add_matrix(MatrixStep m, const core::Op& op) {
  const int64_t rows = rows_of(m.x), slots = rows * m.used, experts = weight(m.parts[0].weight).count;
  const bool sorted = m.ids != kNone && sorts(m.ids, rows, m.used, experts) &&
                      (dots_experts(m, slots) || wide_expert_tile(m.ids, slots, experts) > 0 ||
                       in_.kernels.small_batch(m, slots, expert_tile_tokens(slots, experts)).fits);
  if (!m.beside.empty() && (sorted || !shared_expert_is_slot(in_.limits, rows, m.used))) {
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
  constexpr int64_t kFewForTiles = 16; // without products for small batches: a tile of 128 tokens is computed whole
  if (m.ids == kNone && has_tensor_products(in_.config, in_.limits) &&
      rows > (in_.limits.small_batch ? kMatvecTokens : kFewForTiles))
    return add_product(m, rows);
  sorted ? add_experts(m, rows) : add_matvec(m, rows);
}

// Whether sorted experts are multiplied by integers. For matrices of heads that was not measured.
bool BatchPlanner::dots_experts(const MatrixStep& m, int64_t slots) const {
  return in_.limits.bulk_copies && !m.of_heads &&
         few_tokens_an_expert(slots, weight(m.parts[0].weight).count, fewest_columns(m.ids)) &&
         in_.kernels.can_dot_experts(m, slots);
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
    to_half.tile_tokens = wide_expert_tile(m.ids, rows_of(m.x) * m.used, weight(m.parts[0].weight).count);
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
  return next && next->ids == kNone && !in_.config.observer && m.parts.size() == 1 && !m.glu && m.residual != kNone &&
         width(m.parts[0].out) % 8 == 0;
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
  if (next->ids != kNone && dots_experts(*next, slots)) return; // takes its input as it is
  if (!in_.kernels.small_batch(*next, slots, batch.tile_tokens).fits) return;
  KernelCall& to_half = batch_.calls[*clearer_];
  if (slots % to_half.rows != 0) return;
  clearer_.reset();
  to_half.cleared = slots / to_half.rows;
  batch.writes_half = true;
  half_of_ = m.parts[0].out;
}

void BatchPlanner::add_experts(const MatrixStep& m, int64_t rows) {
  const core::Weight& first = weight(m.parts[0].weight);
  const int64_t slots = rows * m.used;
  const int64_t inputs = width(m.x) != first.cols ? slots : rows;
  KernelCall experts = product_call(Kernel::expert_batch, m, slots);
  experts.tile_tokens = expert_tile(m.ids, slots, first.count);
  if (dots_experts(m, slots)) {
    experts.kernel = Kernel::expert_dots;
    if (m.norm != kNone) convert(m, inputs, first.cols, HalfLayout::interleaved);
    return add(experts);
  }
  experts.wide = wide_expert_tile(m.ids, slots, first.count) > 0;
  add_input(experts, m, inputs);
  write_half(experts, m, slots);
  add(experts);
}

// Products of warpgroups pay for more than 16 tokens.
bool BatchPlanner::takes_wide_batch(const MatrixStep& m, int64_t rows) const {
  return in_.limits.prompt_products && in_.limits.small_batch && rows > 16 && rows <= kMostWideRows &&
         in_.kernels.wide_batch(m, rows).fits;
}

// How a product for small batches wants its input, where there is one for so many rows.
std::optional<HalfLayout> BatchPlanner::small_batch_layout(const MatrixStep& m, int64_t rows) const {
  if (!has_tensor_products(in_.config, in_.limits) || !in_.limits.small_batch || rows <= kMatvecTokens)
    return std::nullopt;
  if (takes_wide_batch(m, rows)) return HalfLayout::wide;
  if (rows <= kBatchTokens && in_.kernels.small_batch(m, rows, 8).fits) return HalfLayout::interleaved;
  return std::nullopt;
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

// Whether so many rows go through the prompts' product on Hopper.
bool BatchPlanner::takes_tiles(const MatrixStep& m, int64_t rows) const {
  const bool small = in_.limits.small_batch && rows <= kBatchTokens;
  return has_prompt_products(in_.config, in_.limits) && !small && !takes_wide_batch(m, rows);
}

// What a product of prompts makes for the next one alone it writes as that one reads it.
void BatchPlanner::write_tiles(KernelCall& product) {
  const ValueId out = product.products[0].matrix.parts[0].out;
  const MatrixStep* next = next_matrix(out);
  const auto reads = [&](const Step& step) { return std::ranges::count(step.inputs, out) > 0; };
  if (!next || next->norm != kNone || next->ids != kNone || in_.config.observer || in_.program.is_read_after(out) ||
      std::ranges::count_if(steps_, reads) != 1 || !takes_tiles(*next, product.rows) ||
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
  const auto first = steps_.begin() + static_cast<std::ptrdiff_t>(step_);
  const auto behind = std::find_if(first, steps_.end(), [&](const Step& step) {
    return step.kind != Step::Kind::matrix || step.matrix.x != m.x || step.matrix.norm != kNone ||
           step.matrix.ids != kNone || !takes_tiles(step.matrix, rows_of(m.x));
  });
  return std::ranges::count_if(steps_, reads) == behind - first;
}

void BatchPlanner::add_product(const MatrixStep& m, int64_t rows) {
  const bool small = in_.limits.small_batch && rows <= kBatchTokens,
             tiled = has_prompt_products(in_.config, in_.limits) && !small;
  KernelCall batch = product_call(Kernel::small_batch, m, rows);
  if (takes_wide_batch(m, rows)) {
    batch.wide = true;
    batch.tile_tokens = wide_tile_rows(rows);
    return add_small_batch(std::move(batch), in_.kernels.wide_batch(m, rows));
  }
  for (int tile = rows <= 8 ? 8 : rows <= 16 ? 16 : 32; small && tile >= 8; tile /= 2)
    if (const KernelChoices::SmallBatch fit = in_.kernels.small_batch(m, rows, tile); fit.fits) {
      batch.tile_tokens = tile;
      return add_small_batch(std::move(batch), fit);
    }
  sibling_runs_ = false;
  if (multiplies_bytes_ && in_.kernels.can_multiply_bytes(m)) {
    convert(m, rows, width(m.x), HalfLayout::bytes);
    return add(product_call(Kernel::integer_product, m, rows));
  }
  const bool reads_tiles = tiled && m.x == std::exchange(tiled_, kNone);
  if (!reads_tiles) convert(m, rows, width(m.x), tiled ? HalfLayout::tiles : HalfLayout::rows);
  if (tiled) {
    prompt_products_.push_back(product(m));
    if (sibling_follows_[step_]) return;
    KernelCall prompt = call(Kernel::prompt_product);
    prompt.first_step -= static_cast<int32_t>(prompt_products_.size()) - 1;
    prompt.products = std::exchange(prompt_products_, {});
    prompt.rows = rows;
    prompt.reads_half = reads_tiles;
    prompt.unscaled = reads_tiles || converted_->unscaled;
    if (m.glu) write_tiles(prompt);
    return add(prompt);
  }
  KernelCall gemm = product_call(Kernel::gemm, m, rows);
  add(gemm);
  if (!m.glu) return;
  gemm.kernel = Kernel::gate_up_glu;
  add(gemm);
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
  if (sibling_follows_[step_] && matvec.rows <= kMatvecTokens && m.ids == kNone && !in_.config.exact)
    matvec_ = matvec;
  else
    add(matvec);
}

} // namespace ridge::kernels::cuda
