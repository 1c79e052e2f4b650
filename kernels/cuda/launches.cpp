// A batch as kernel launches: what each step of the plan asks of the kernels.
#include "kernels/cuda/executor_impl.h"

#include <algorithm>

namespace ridge::kernels::cuda {

using core::OpKind;

void Executor::launch_all(const Shape& shape) {
  for (const Step& step : plan_.steps) {
    const auto& written = step.outputs;
    if (shape.outputs == 0 && !written.empty() && program_.values[written[0]].gathered) continue; // no rows
    launch_step(step, shape);
  }
  if (shape.sample) return launch_sample(launch_, decoding_.args);
  if (!shape.greedy) return;
  GreedyArgs args = greedy_args_;
  args.logits = value(program_.logits);
  args.n = static_cast<int>(shape.outputs);
  args.tokens = batch_.tokens;
  args.positions = batch_.positions;
  launch_greedy(launch_, args);
}

void Executor::launch_step(const Step& step, const Shape& shape) {
  switch (step.kind) {
  case Step::Kind::op: return launch_op(*step.op, shape);
  case Step::Kind::matrix: return launch_matrix(step.matrix, shape);
  case Step::Kind::heads: break;
  }
  const HeadsStep& h = step.heads;
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
  launch_rope_store(launch_, args);
}

void Executor::launch_matrix(const MatrixStep& m, const Shape& shape) {
  const int64_t rows = rows_of(m.x, shape);
  const core::Weight& first = program_.weights[m.parts[0].weight];
  if (m.ids == kNone && rows > matvec_limit()) return launch_product(m, rows);
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
  if (m.residual != kNone) {
    args.residual = value(m.residual);
    args.residual_stride = width(m.residual);
  }
  if (m.ids != kNone) {
    args.ids = ids(m.ids);
    args.expert_bytes = args.row_bytes * first.rows;
    args.slots = static_cast<int>(m.used);
  }
  format_of(m.parts[0].weight).matvec(launch_, args, config_.exact);
}

void Executor::launch_product(const MatrixStep& m, int64_t rows) {
  const int64_t cols = width(m.x), stride = (cols + kGemmColumns - 1) / kGemmColumns * kGemmColumns;
  launch_to_half(launch_, value(m.x), vector(m.norm), m.norm_epsilon, rows, cols, half_x_.as<uint16_t>(), stride,
                 exponents_.as<int8_t>());
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
    float* out = m.swiglu ? (i == 0 ? gate_ : up_).as<float>() : value(part.out);
    args.segment[i] = {weights_.weights[part.weight].data, static_cast<int>(program_.weights[part.weight].rows), out,
                       vector(part.bias)};
  }
  args.residual = m.residual == kNone ? nullptr : value(m.residual);
  format_of(m.parts[0].weight).gemm(launch_, args);
  if (m.swiglu)
    launch_swiglu(launch_, gate_.as<float>(), up_.as<float>(), value(m.parts[0].out), rows * width(m.parts[0].out));
}

void Executor::launch_attention_op(const core::Op& op, const Shape& shape) {
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
  args.tile_tokens = std::clamp(kAttentionRows / (args.heads / args.cache.heads), 1, shape.tile_tokens);
  const int tiles = (args.tokens + args.tile_tokens - 1) / args.tile_tokens;
  // Two blocks per multiprocessor, where the context has that much to share out.
  args.splits = tiles > kGraphTokens
                    ? 1
                    : std::clamp(2 * launch_.sm_count / (tiles * args.cache.heads), 1,
                                 static_cast<int>(std::min<int64_t>(kMaxSplits, (config_.context + 63) / 64)));
  args.partial = partial_.as<float>();
  args.tickets = tickets_.as<unsigned>();
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
    return launch_route(launch_, in(0), ids(op.outputs[0]), value(op.outputs[1]), rows(),
                        static_cast<int>(params.experts), static_cast<int>(params.used), params.normalize);
  }
  case OpKind::expert_sum:
    return launch_expert_sum(launch_, in(0), in(1), value(op.outputs[0]), rows(), static_cast<int>(width(op.inputs[1])),
                             width(op.outputs[0]));
  case OpKind::linear:
  case OpKind::expert_linear: break; // matrix steps
  }
}

} // namespace ridge::kernels::cuda
