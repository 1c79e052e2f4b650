#include "kernels/cuda/executor/launches.h"

#include "core/host_device/round_up.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/fused_glu.h"

#include <algorithm>

namespace ridge::kernels::cuda {

namespace {

std::optional<FusedGlu> glu_of(const MatrixStep& m) { return m.glu ? fused_glu(*m.glu) : std::nullopt; }

} // namespace

MatvecArgs KernelLauncher::matvec_args(const BatchPlan& plan, const Product& product, int64_t tokens) const {
  const MatrixStep& m = product.matrix;
  const core::Weight& first = first_weight(m);
  MatvecArgs args = {};
  args.x = value(plan, m.x);
  args.x_per_slot = has_rows_by_slot(program_, m);
  args.x_stride = first.cols;
  args.tokens = static_cast<int>(tokens);
  args.cols = static_cast<int>(first.cols);
  args.row_bytes = weights_[m.parts[0].weight].row_bytes;
  args.norm_weight = weights_.vector(m.norm);
  args.norm_epsilon = m.norm_epsilon;
  args.segments = static_cast<int>(m.parts.size());
  for (size_t i = 0; i < m.parts.size(); ++i) {
    const MatrixStep::Part& part = m.parts[i];
    const core::Weight& w = program_.weights[part.weight];
    args.segment[i] = {weights_[part.weight].data, static_cast<int>(w.rows), value(plan, part.out), w.rows,
                       weights_.vector(part.bias)};
  }
  args.gated = m.glu.has_value();
  args.glu = glu_of(m).value_or(FusedGlu{});
  args.dataflow_input = product.dataflow_input;
  args.residual = value(plan, m.residual);
  if (m.residual != kNone) args.residual_stride = width(m.residual);
  if (m.ids == kNone) return args;
  if (!m.of_heads) args.ids = ids(plan, m.ids);
  args.experts = expert_places(m);
  args.slots = static_cast<int>(m.used + std::ssize(m.shared_expert));
  for (const MatrixStep& shared : m.shared_expert) {
    for (size_t i = 0; i < shared.parts.size(); ++i) args.shared.weights[i] = weights_[shared.parts[i].weight].data;
    args.shared.x = value(plan, shared.x);
    args.shared.out = value(plan, shared.parts[0].out);
  }
  return args;
}

ExpertPlaces KernelLauncher::expert_places(const MatrixStep& m) const {
  return {weights_[m.parts[0].weight].matrix_bytes, experts_.places(m.ids)};
}

GemmArgs KernelLauncher::gemm_shape(const MatrixStep& m, int64_t rows) const {
  const int64_t cols = first_weight(m).cols;
  GemmArgs args = {};
  args.x = workspace_.half_x();
  args.x_stride = (cols + kGemmColumns - 1) / kGemmColumns * kGemmColumns;
  args.exponent = workspace_.exponents();
  args.tokens = static_cast<int>(rows);
  args.cols = static_cast<int>(cols);
  args.row_bytes = weights_[m.parts[0].weight].row_bytes;
  args.segments = static_cast<int>(m.parts.size());
  for (size_t i = 0; i < m.parts.size(); ++i) {
    const MatrixStep::Part& part = m.parts[i];
    args.segment[i] = {weights_[part.weight].data, static_cast<int>(program_.weights[part.weight].rows), nullptr,
                       weights_.vector(part.bias)};
  }
  return args;
}

GemmArgs KernelLauncher::gemm_args(const BatchPlan& plan, const MatrixStep& m, int64_t rows) const {
  GemmArgs args = gemm_shape(m, rows);
  for (size_t i = 0; i < m.parts.size(); ++i) args.segment[i].out = value(plan, m.parts[i].out);
  args.residual = value(plan, m.residual);
  return args;
}

// `tokens`: input rows, or slots of experts.
BatchArgs KernelLauncher::batch_args(const BatchPlan& plan, const MatrixStep& m, int64_t tokens) const {
  BatchArgs args = {};
  args.product = gemm_args(plan, m, tokens);
  args.gated = m.glu.has_value();
  args.glu = glu_of(m).value_or(FusedGlu{});
  args.partial = workspace_.batch_parts();
  args.used = 1;
  args.x_rows = tokens;
  if (m.ids == kNone) return args;
  args.used = has_rows_by_slot(program_, m) ? 1 : static_cast<int>(m.used);
  args.x_rows = tokens / args.used;
  args.experts = expert_places(m);
  args.tiles = workspace_.expert_tiles();
  args.tile_count = workspace_.tile_count();
  args.order = workspace_.slot_order();
  return args;
}

void KernelLauncher::run(const BatchPlan& plan, const ConvertInput& call, const Launch& launch) {
  const MatrixStep& m = call.matrix;
  const bool sorted = call.layout == HalfLayout::sorted_wide;
  HalfArgs args = {.x = value(plan, m.x),
                   .norm_weight = weights_.vector(m.norm),
                   .epsilon = m.norm_epsilon,
                   .rows = static_cast<int>(call.rows),
                   .cols = static_cast<int>(call.cols),
                   .out = workspace_.half_x(),
                   .stride = static_cast<int>(core::round_up(call.cols, sorted ? kWideColumns : kGemmColumns)),
                   .layout = call.layout,
                   .tiled_rows = Divisor(sorted                             ? call.sorted_tile
                                         : call.layout == HalfLayout::tiles ? core::round_up(call.rows, kPromptTokens)
                                                                            : wide_tile_rows(call.rows)),
                   .places = workspace_.slot_places(),
                   .used = has_rows_by_slot(program_, m) ? 1 : static_cast<int>(m.used),
                   .exponents = workspace_.exponents()};
  if (call.sums) {
    const MatrixStep& summed = call.sums->product.matrix;
    const TileCut& cut = call.sums->cut;
    args.sums = workspace_.batch_parts();
    args.bias = weights_.vector(summed.parts[0].bias);
    args.sum_out = value(plan, m.x);
    args.x = value(plan, summed.residual);
    args.ranges = cut.ranges;
    args.row_floats = int64_t{cut.row_tiles} * kBatchRows;
    args.range_floats = int64_t{cut.token_tiles} * call.sums->tile_tokens * args.row_floats;
  }
  if (const core::Op* norm = call.layer_norm) {
    args.x = value(plan, norm->inputs[0]);
    args.norm_weight = weights_.vector(norm->weights[0]);
    if (norm->weights.size() > 1) args.norm_bias = weights_.vector(norm->weights[1]);
    args.epsilon = std::get<core::NormParams>(norm->params).epsilon;
    args.centers = true;
  }
  if (call.cleared > 0) {
    args.cleared = workspace_.glu_largest();
    args.cleared_per_row = static_cast<int>(call.cleared);
  }
  launch_to_half(launch, args);
}

static Launch without(Launch launch, int free_multiprocessors) {
  launch.sm_count -= free_multiprocessors;
  return launch;
}

void KernelLauncher::run(const BatchPlan& plan, const Matvec& call, const Launch& launch) {
  const MatrixStep& m = call.product.matrix;
  MatvecArgs args = matvec_args(plan, call.product, call.rows);
  if (call.sends)
    if (const ExchangeArgs sum = exchange_args(plan, *call.sends); sum.ranks > 0) args.packets = packet_targets(sum);
  const Launch on = without(launch, call.free_multiprocessors);
  if (const auto* adapted = std::get_if<AdaptedCut>(&call.cut))
    return format_of(m).matvec_adapted(on, args, adapter_args(plan, m), *adapted);
  format_of(m).matvec(on, args, std::get<MatvecCut>(call.cut));
}

void KernelLauncher::run(const BatchPlan& plan, const MatvecPair& call, const Launch& launch) {
  const MatrixStep &first = call.first.matrix, &second = call.second.matrix;
  const MatvecArgs args = matvec_args(plan, call.first, call.rows), others = matvec_args(plan, call.second, call.rows);
  const Launch on = without(launch, call.free_multiprocessors);
  const FormatKernels& format = format_of(first);
  const quant::Type type = format_of(second).numbers.type;
  if (first.has_changes() || second.has_changes())
    return format.matvec_adapted_pair(on, {args, adapter_args(plan, first)}, {others, adapter_args(plan, second)}, type,
                                      call.cut);
  format.matvec_pair(on, args, others, type, call.cut);
}

void KernelLauncher::run(const BatchPlan& plan, const MatvecRouter& call, const Launch& launch) {
  format_of(call.product.matrix)
      .matvec_router(launch, matvec_args(plan, call.product, call.rows), router_rows(plan, call), call.cut);
}

void KernelLauncher::run(const BatchPlan& plan, const SmallBatch& call, const Launch& launch) {
  BatchArgs args = batch_args(plan, call.product.matrix, call.rows);
  args.sibling_follows = call.sibling_follows;
  args.follows_sibling = call.follows_sibling;
  args.leaves_sums = call.leaves_sums;
  if (call.writes_half) {
    args.out_half = workspace_.glu_half();
    args.out_rows = call.rows;
    args.out_largest = workspace_.glu_largest();
  }
  if (call.reads_half) {
    args.product.x = workspace_.glu_half();
    args.x_rows = call.rows;
    args.x_floats = value(plan, call.product.matrix.x);
    args.x_largest = workspace_.glu_largest();
  }
  const FormatKernels& format = format_of(call.product.matrix);
  call.wide ? format.wide_batch(launch, args, call.tile_tokens, call.cut)
            : format.batch(launch, args, call.tile_tokens, call.cut);
}

void KernelLauncher::run(const BatchPlan& plan, const ExpertDots& call, const Launch& launch) {
  const MatrixStep& m = call.product.matrix;
  BatchArgs args = batch_args(plan, m, call.rows);
  if (m.norm == kNone) args.x_floats = value(plan, m.x); // else the conversion has normed it
  format_of(m).expert_dots(launch, args, call.cut);
}

PromptResult KernelLauncher::prompt_result(const BatchPlan& plan, const PromptProduct& call) const {
  const MatrixStep& m = call.products[0].matrix;
  PromptResult result;
  result.log2_largest = call.has_loose_bound ? kLog2LargestHalf : kLog2LargestConverted;
  result.glu = glu_of(m);
  result.gated = m.glu && m.parts.size() == 2;
  if (!call.writes_half) return result;
  const core::ValueId out = m.parts[0].out;
  result.half = tiled_half(value(plan, out), call.rows, width(out));
  for (size_t i = 0; i < m.parts.size(); ++i) result.bounds[i] = workspace_.product_bound(m.parts[i].weight);
  return result;
}

void KernelLauncher::bound_products(const Plan& plan, const Launch& launch) const {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (!plan.steps[i].matrix() || plan.steps[i].matrix()->ids != kNone) continue;
    MatrixStep m = *plan.steps[i].matrix();
    if (!m.glu && !activation_behind(program_, plan, i)) continue;
    const std::vector<MatrixStep::Part> parts = std::move(m.parts);
    for (const MatrixStep::Part& part : parts) {
      m.parts = {part};
      launch_product_bound(launch, {gemm_shape(m, 1), format_of(m).expand}, workspace_.prompt_scratch(),
                           workspace_.product_bound(part.weight));
    }
    if (plan.steps[i].matrix()->has_changes())
      adapters_.add_bounds(
          program_, *plan.steps[i].matrix(), [&](core::WeightId id) { return workspace_.product_bound(id); }, launch);
  }
}

void KernelLauncher::run(const BatchPlan& plan, const PromptProduct& call, const Launch& launch) {
  std::vector<PromptMatrices> matrices;
  for (const auto& [m, dataflow] : call.products)
    matrices.push_back({gemm_args(plan, m, call.rows), format_of(m).expand});
  if (call.reads_half) {
    const core::ValueId x = call.products[0].matrix.x;
    const TiledHalf half = tiled_half(value(plan, x), call.rows, width(x));
    for (PromptMatrices& m : matrices) m.args.x = half.tiles, m.args.exponent = half.exponents;
  }
  if (!call.sum) {
    const std::vector<PromptAdapter> adapters = prompt_adapters(call);
    PromptResult result = prompt_result(plan, call);
    result.adapted_x = workspace_.adapted_x();
    result.adapted_columns = adapt_prompt(call, adapters, matrices[0].args, result.log2_largest, launch);
    for (size_t i = 0; i < matrices.size(); ++i)
      if (adapters[i].args.padded > 0) matrices[i].adapter = &adapters[i];
    return launch_prompt_product(launch, matrices, result, workspace_.prompt_scratch());
  }
  const ExchangeArgs summed = exchange_args(plan, *call.sum);
  if (summed.ranks > 0) {
    launch_prompt_product(launch, matrices[0], workspace_.prompt_scratch(), sum_mail(summed));
    return sum_beside(summed, launch);
  }
  launch_prompt_product(launch, matrices, {}, workspace_.prompt_scratch());
  exchange_otherwise(summed, launch);
}

void KernelLauncher::run(const BatchPlan& plan, const IntegerProduct& call, const Launch& launch) {
  const MatrixStep& m = call.product.matrix;
  format_of(m).integer_product(
      launch,
      {.product = gemm_args(plan, m, call.rows), .gated = m.glu.has_value(), .glu = glu_of(m).value_or(FusedGlu{})});
}

void KernelLauncher::run(const BatchPlan& plan, const Gemm& call, const Launch& launch) {
  const MatrixStep& m = call.product.matrix;
  GemmArgs args = gemm_args(plan, m, call.rows);
  if (m.glu) {
    args.segment[0].out = workspace_.gate();
    args.segment[1].out = workspace_.up();
  }
  format_of(m).gemm(launch, args);
}

void KernelLauncher::run(const BatchPlan& plan, const GateUpGlu& call, const Launch& launch) {
  const core::ValueId out = call.matrix.parts[0].out;
  launch_gate_up_glu(launch, *call.matrix.glu, workspace_.gate(), workspace_.up(), value(plan, out),
                     call.rows * width(out));
}

RouterRows KernelLauncher::router_rows(const BatchPlan& plan, const MatvecRouter& call) const {
  const MatrixStep& router = call.router;
  const FoldedRouter& folded = routers_[call.router_step];
  const RouteArgs route = route_args(op_call(plan, {call.route, call.route->outputs, call.rows}));
  const float* bias = weights_.vector(router.parts[0].bias);
  return {.matrix = folded.matrix,
          .constant = folded.constant,
          .bias = bias,
          .choice_needs_y = bias || route.bias || route.gate == core::Gate::sigmoid,
          .route = route,
          .gate = folded.gate,
          .gate_out = router.parts.size() > 1 ? value(plan, router.parts[1].out) : nullptr,
          .width = static_cast<int>(width(router.x)),
          .epsilon = router.norm_epsilon};
}

} // namespace ridge::kernels::cuda
