// A batch as kernel launches: what each step of the plan asks of the kernels.
#include "kernels/cuda/executor/executor_impl.h"
#include "kernels/cuda/executor/profile.h"

#include <algorithm>
#include <utility>

namespace ridge::kernels::cuda {

using core::OpKind;

namespace {

// Products of different formats with the same input, as q, k and v can be: for prompts and for single tokens they
// become one.
bool are_siblings(const Step& a, const Step& b) {
  const auto plain = [](const Step& s) {
    return s.kind == Step::Kind::matrix && s.matrix.ids == kNone && !s.matrix.swiglu && s.matrix.residual == kNone;
  };
  return plain(a) && plain(b) && a.matrix.x == b.matrix.x && a.matrix.norm == b.matrix.norm;
}

} // namespace

void Executor::launch_all(const Shape& shape) {
  converted_.reset();
  pending_.clear();
  held_.reset();
  renamed_ = {};
  sibling_under_way_ = false;
  size_t parts = 0; // of products that become one
  const bool overlap = launch_.overlap;
  dataflow_tokens_ = overlap && options_.dataflow_sync && shape.tokens <= kMatvecTokens ? shape.tokens : 0;
  if (const int64_t floats = dataflow_tokens_ * dataflow_offset_.back(); floats > 0)
    RIDGE_CUDA(cudaMemsetAsync(dataflow_memory_.as(), 0xff, floats * 4, launch_.stream));
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    const Step& step = plan_.steps[i];
    // No kernel of a batch starts before the batch in front of it is done: attention reads positions and caches early.
    launch_.overlap = overlap && i > 0;
    const ProfilerRange range(step_names_[i]);
    const auto& written = step.outputs;
    if (shape.outputs == 0 && !written.empty() && program_.values[written[0]].gathered) continue; // no rows
    if (renamed_.from != kNone && step.inputs == std::vector{renamed_.from}) continue;
    if (shape.tokens == 1 && shape.outputs == 1) renamed_ = gathered_next(i);
    step_ = i;
    log_step(i);
    parts += step.matrix.parts.size();
    sibling_follows_ = i + 1 < plan_.steps.size() && are_siblings(step, plan_.steps[i + 1]) &&
                       parts + plan_.steps[i + 1].matrix.parts.size() <= kMostPromptMatrices;
    if (!sibling_follows_) parts = 0;
    launch_step(step, shape);
    for (const core::ValueId id : written)
      if (converted_ && plan_.buffers.slot_of_value[id] == plan_.buffers.slot_of_value[converted_->x])
        converted_.reset();
  }
  launch_.overlap = overlap;
  dataflow_tokens_ = 0;
  if (shape.sample) return launch_sample(launch_, decoding_.args);
  if (!shape.greedy) return;
  GreedyArgs args = greedy_args_;
  args.logits = value(program_.logits);
  args.n = static_cast<int>(shape.outputs);
  args.tokens = batch_.tokens;
  args.positions = batch_.positions;
  launch_greedy(launch_, args);
}

// What the step after step i gathers, if nobody else wants it: of a batch of one token it need not be copied. The
// values of gathered rows have memory of their own, of which step i uses none.
Executor::Renamed Executor::gathered_next(size_t i) const {
  if (i + 1 == plan_.steps.size()) return {};
  const Step& next = plan_.steps[i + 1];
  if (next.kind != Step::Kind::op || next.op->kind != OpKind::gather) return {};
  const core::ValueId from = next.inputs[0];
  const bool read_later = std::any_of(plan_.steps.begin() + static_cast<std::ptrdiff_t>(i) + 2, plan_.steps.end(),
                                      [&](const Step& s) { return std::ranges::count(s.inputs, from) > 0; });
  if (read_later || from == program_.result() || std::ranges::count(plan_.steps[i].outputs, from) == 0) return {};
  return {from, next.outputs[0]};
}

void Executor::launch_step(const Step& step, const Shape& shape) {
  switch (step.kind) {
  case Step::Kind::op: return launch_op(*step.op, shape);
  case Step::Kind::matrix:
    if (config_.observer) observe(*step.op, step.matrix, rows_of(step.matrix.x, shape));
    return launch_matrix(step.matrix, shape);
  case Step::Kind::heads: return launch_heads(step.heads, shape);
  }
}

RopeStoreArgs Executor::rope_store_args(const HeadsStep& h, const Shape& shape) const {
  RopeStoreArgs args = {};
  args.positions = batch_.positions;
  args.streams = batch_.streams;
  args.tokens = static_cast<int>(shape.tokens);
  args.q_in = value(h.q_in);
  args.k_in = value(h.k_in);
  args.v_in = value(h.v_in);
  args.q_out = value(h.q_out);
  args.q_norm = vector(h.q_norm);
  args.k_norm = vector(h.k_norm);
  args.epsilon = h.epsilon;
  args.q_heads = static_cast<int>(h.q_heads);
  args.k_heads = static_cast<int>(h.k_heads);
  args.head_dim = static_cast<int>(h.head_dim);
  const core::RopeTable& table = program_.rope_tables[h.table];
  args.rotate = true;
  args.rope = {rope_tables_[h.table].as<float>(), static_cast<int>(table.inverse_frequency.size()), table.magnitude,
               table.style == core::RopeStyle::split};
  args.store = true;
  args.cache = cache_layers_[h.kv_layer];
  args.dataflow_input = input_is_dataflow();
  return args;
}

void Executor::launch_heads(const HeadsStep& h, const Shape& shape) {
  const RopeStoreArgs args = rope_store_args(h, shape);
  if (h.attention && shape.distinct_streams) {
    const AttentionArgs attention = attention_args(*h.attention, shape);
    if (can_fuse_rope(attention, args)) return launch_rope_attention(launch_, attention, args);
  }
  if (shape.tokens >= kPromptTokensAtLeast && can_rope_prompts(args))
    launch_prompt_rope(launch_, args);
  else
    launch_rope_store(launch_, args);
  if (h.attention) launch_attention_op(*h.attention, shape);
}

void Executor::launch_matrix(const MatrixStep& m, const Shape& shape) {
  const int64_t rows = rows_of(m.x, shape);
  const core::Weight& first = program_.weights[m.parts[0].weight];
  if (m.ids == kNone && tensor_cores() && rows > kMatvecTokens) return launch_product(m, rows);
  if (m.ids != kNone && groups_experts(rows * m.used, first.count) && launch_experts(m, rows)) return;
  MatvecArgs args = {};
  args.x = value(m.x);
  args.x_per_slot = m.ids != kNone && width(m.x) != first.cols;
  args.x_stride = first.cols;
  args.tokens = static_cast<int>(rows * m.used);
  args.cols = static_cast<int>(first.cols);
  args.row_bytes = weights_.weights[m.parts[0].weight].row_bytes;
  args.norm_weight = vector(m.norm);
  args.norm_epsilon = m.norm_epsilon;
  args.segments = static_cast<int>(m.parts.size());
  for (size_t i = 0; i < m.parts.size(); ++i) {
    const MatrixStep::Part& part = m.parts[i];
    const core::Weight& w = program_.weights[part.weight];
    args.segment[i] = {weights_.weights[part.weight].data, static_cast<int>(w.rows), value(part.out), w.rows,
                       vector(part.bias)};
  }
  args.swiglu = m.swiglu;
  args.dataflow_input = input_is_dataflow();
  if (m.residual != kNone) {
    args.residual = value(m.residual);
    args.residual_stride = width(m.residual);
  }
  if (m.ids != kNone) {
    args.ids = ids(m.ids);
    args.expert_bytes = weights_.weights[m.parts[0].weight].matrix_bytes;
    args.slots = static_cast<int>(m.used);
  }
  launch_matvec(m.parts[0].weight, args);
}

// Two siblings go together where there is a kernel for both.
void Executor::launch_matvec(core::WeightId weight, const MatvecArgs& args) {
  if (const std::optional<Held> held = std::exchange(held_, std::nullopt)) {
    const FormatKernels& kernels = format_of(held->weight);
    if (kernels.matvec_pair(launch_, held->args, args, format_of(weight).type)) return;
    log_step(held->step);
    kernels.matvec(launch_, held->args, config_.exact);
    log_step(step_);
  }
  if (sibling_follows_ && args.tokens == 1 && !config_.exact)
    held_ = {weight, args, step_};
  else
    format_of(weight).matvec(launch_, args, config_.exact);
}

// `rows` rows of `cols` columns of the step's input as halves, and where the results go.
GemmArgs Executor::product_args(const MatrixStep& m, int64_t rows, int64_t cols, bool tiled) {
  const int64_t stride = (cols + kGemmColumns - 1) / kGemmColumns * kGemmColumns;
  const int64_t tiled_rows = tiled ? (rows + kPromptTokens - 1) / kPromptTokens * kPromptTokens : 0;
  const Converted converted = {m.x, m.norm, cols, tiled};
  if (converted_ != converted)
    launch_to_half(launch_, value(m.x), vector(m.norm), m.norm_epsilon, rows, cols, half_x_.as<uint16_t>(), stride,
                   tiled_rows, exponents_.as<int8_t>());
  converted_ = converted;
  GemmArgs args = {};
  args.x = half_x_.as<uint16_t>();
  args.x_stride = stride;
  args.exponent = exponents_.as<int8_t>();
  args.tokens = static_cast<int>(rows);
  args.cols = static_cast<int>(cols);
  args.row_bytes = weights_.weights[m.parts[0].weight].row_bytes;
  args.segments = static_cast<int>(m.parts.size());
  for (size_t i = 0; i < m.parts.size(); ++i) {
    const MatrixStep::Part& part = m.parts[i];
    args.segment[i] = {weights_.weights[part.weight].data, static_cast<int>(program_.weights[part.weight].rows),
                       value(part.out), vector(part.bias)};
  }
  args.residual = m.residual == kNone ? nullptr : value(m.residual);
  return args;
}

bool Executor::launch_batch(const MatrixStep& m, BatchArgs& args, int tile_tokens) {
  args.swiglu = m.swiglu;
  args.partial = parts_.as<float>();
  return format_of(m.parts[0].weight).batch(launch_, args, tile_tokens);
}

void Executor::launch_product(const MatrixStep& m, int64_t rows) {
  const FormatKernels& format = format_of(m.parts[0].weight);
  const bool small = has_batch_kernels_ && rows <= kBatchTokens, tiled = decoded_ && !small;
  BatchArgs batch = {};
  batch.product = product_args(m, rows, width(m.x), tiled);
  batch.used = 1;
  batch.sibling_follows = sibling_follows_;
  batch.follows_sibling = std::exchange(sibling_under_way_, false);
  for (int tile = rows <= 8 ? 8 : rows <= 16 ? 16 : kMaxTileTokens; small && tile >= 8; tile /= 2)
    if (launch_batch(m, batch, tile)) {
      sibling_under_way_ = batch.sibling_follows;
      return;
    }
  GemmArgs& args = batch.product;
  if (tiled) {
    pending_.push_back({args, format.expand});
    if (sibling_follows_) return;
    launch_prompt_product(launch_, pending_, m.swiglu, *decoded_);
    return pending_.clear();
  }
  if (m.swiglu)
    for (int i = 0; i < 2; ++i) args.segment[i].out = (i == 0 ? gate_ : up_).as<float>();
  format.gemm(launch_, args);
  if (m.swiglu)
    launch_swiglu(launch_, gate_.as<float>(), up_.as<float>(), value(m.parts[0].out), rows * width(m.parts[0].out));
}

bool Executor::launch_experts(const MatrixStep& m, int64_t rows) {
  const core::Weight& first = program_.weights[m.parts[0].weight];
  const int64_t slots = rows * m.used;
  const bool per_slot = width(m.x) != first.cols;
  BatchArgs args = {};
  args.product = product_args(m, per_slot ? slots : rows, first.cols, false);
  args.product.tokens = static_cast<int>(slots);
  args.used = per_slot ? 1 : static_cast<int>(m.used);
  args.expert_bytes = weights_.weights[m.parts[0].weight].matrix_bytes;
  args.tiles = expert_tiles_;
  args.tile_count = tile_count_;
  args.order = slot_order_;
  return launch_batch(m, args, expert_tile_tokens(slots, first.count));
}

AttentionArgs Executor::attention_args(const core::Op& op, const Shape& shape) const {
  const auto& params = std::get<core::AttentionParams>(op.params);
  AttentionArgs args = {};
  args.q = value(op.inputs[0]);
  args.out = value(op.outputs[0]);
  args.positions = batch_.positions;
  args.streams = batch_.streams;
  args.tokens = static_cast<int>(shape.tokens);
  args.heads = static_cast<int>(params.heads);
  args.scale = params.scale;
  args.cache = cache_layers_[params.layer];
  args.tile_tokens =
      shape.distinct_streams ? 1 : std::clamp(kAttentionRows / (args.heads / args.cache.heads), 1, shape.tile_tokens);
  const int tiles = (args.tokens + args.tile_tokens - 1) / args.tile_tokens;
  // Two blocks per multiprocessor, where the context has that much to share out.
  args.splits = tiles > kGraphTokens
                    ? 1
                    : std::clamp(2 * launch_.sm_count / (tiles * args.cache.heads), 1,
                                 static_cast<int>(std::min<int64_t>(kMaxAttentionSplits, (config_.context + 63) / 64)));
  args.partial = partial_.as<float>();
  args.tickets = tickets_.as<unsigned>();
  args.stamps = launch_.stamps();
  return args;
}

void Executor::launch_attention_op(const core::Op& op, const Shape& shape) {
  const AttentionArgs args = attention_args(op, shape);
  if (decoded_ && shape.tile_tokens > 1 && shape.tokens >= kPromptTokensAtLeast &&
      can_attend_prompts(args.cache, args.heads))
    return launch_prompt_attention(launch_, args);
  launch_attention(launch_, args);
}

void Executor::launch_op(const core::Op& op, const Shape& shape) {
  const auto in = [&](size_t i) { return value(op.inputs[i]); };
  const auto rows = [&] { return rows_of(op.outputs[0], shape); };
  switch (op.kind) {
  case OpKind::embed:
    return format_of(op.weights[0])
        .embed(launch_, weights_.weights[op.weights[0]].data, width(op.outputs[0]), batch_.tokens,
               static_cast<int>(shape.tokens), value(op.outputs[0]));
  case OpKind::rms_norm: {
    const auto& params = std::get<core::NormParams>(op.params);
    return launch_rms_norm(launch_, in(0), vector(op.weights[0]), value(op.outputs[0]),
                           rows() * width(op.outputs[0]) / params.group, params.group, params.epsilon);
  }
  case OpKind::rope: {
    const auto& params = std::get<core::RopeParams>(op.params);
    const core::RopeTable& table = program_.rope_tables[params.table];
    RopeStoreArgs args = {};
    args.positions = batch_.positions;
    args.streams = batch_.streams;
    args.tokens = static_cast<int>(shape.tokens);
    args.q_in = in(0);
    args.q_out = value(op.outputs[0]);
    args.q_heads = static_cast<int>(params.heads);
    args.head_dim = static_cast<int>(params.head_dim);
    args.rotate = true;
    args.rope = {rope_tables_[params.table].as<float>(), static_cast<int>(table.inverse_frequency.size()),
                 table.magnitude, table.style == core::RopeStyle::split};
    return launch_rope_store(launch_, args);
  }
  case OpKind::kv_store: {
    RopeStoreArgs args = {};
    args.positions = batch_.positions;
    args.streams = batch_.streams;
    args.tokens = static_cast<int>(shape.tokens);
    args.cache = cache_layers_[std::get<core::KvParams>(op.params).layer];
    args.k_in = in(0);
    args.v_in = in(1);
    args.k_heads = args.cache.heads;
    args.head_dim = args.cache.k_dim;
    args.store = true;
    return launch_rope_store(launch_, args);
  }
  case OpKind::attention: return launch_attention_op(op, shape);
  case OpKind::swiglu: return launch_swiglu(launch_, in(0), in(1), value(op.outputs[0]), rows() * width(op.outputs[0]));
  case OpKind::add: return launch_add(launch_, in(0), in(1), value(op.outputs[0]), rows() * width(op.outputs[0]));
  case OpKind::permute: {
    const int64_t columns = program_.weights[op.weights[0]].cols;
    return launch_permute(launch_, in(0), std::get<core::PermuteParams>(op.params).group,
                          reinterpret_cast<const int32_t*>(vector(op.weights[0])), columns, value(op.outputs[0]),
                          rows() * width(op.outputs[0]) / columns);
  }
  case OpKind::gather:
    return launch_gather(launch_, in(0), batch_.outputs, value(op.outputs[0]), rows(), width(op.outputs[0]));
  case OpKind::route: {
    const auto& params = std::get<core::RouteParams>(op.params);
    launch_route(launch_, in(0), ids(op.outputs[0]), value(op.outputs[1]), rows(), static_cast<int>(params.experts),
                 static_cast<int>(params.used), params.normalize);
    if (const int64_t slots = rows() * params.used; groups_experts(slots, params.experts))
      launch_group_slots(launch_, ids(op.outputs[0]), static_cast<int>(slots), static_cast<int>(params.experts),
                         expert_tile_tokens(slots, params.experts), slot_order_, expert_tiles_, tile_count_);
    return;
  }
  case OpKind::expert_sum:
    return launch_expert_sum(launch_, in(0), in(1), value(op.outputs[0]), rows(), static_cast<int>(width(op.inputs[1])),
                             width(op.outputs[0]));
  case OpKind::linear:
  case OpKind::expert_linear: break; // matrix steps
  }
}

} // namespace ridge::kernels::cuda
