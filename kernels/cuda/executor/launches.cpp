#include "kernels/cuda/executor/launches.h"

#include "kernels/cuda/attention/wide_prompt_attention.h"
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/small_batch/batch.h"
#include "kernels/cuda/small_batch/head_slots.h"

#include <algorithm>

namespace ridge::kernels::cuda {

void KernelLauncher::launch(const BatchPlan& plan, const KernelCall& call, const Launch& launch) {
  std::visit([&](const auto& work) { run(plan, work, launch); }, call.work);
}

void KernelLauncher::run(const BatchPlan& plan, const ClearDataflow&, const Launch& launch) {
  workspace_.clear_dataflow(plan.adapted ? kDataflowTokens : plan.dataflow_tokens, plan.adapted, launch.stream);
}

void KernelLauncher::run(const BatchPlan& plan, const Sample& call, const Launch& launch) {
  launch_sample(launch, decoding_.args(call.output, plan.shape.outputs, plan.shape.tokens));
}

void KernelLauncher::run(const BatchPlan& plan, const PlainOp& call, const Launch& launch) {
  launcher_of(call.op->kind)(launch, op_call(plan, call));
}

RopeArgs KernelLauncher::rope_args(int32_t index) const {
  const core::RopeTable& table = program_.rope_tables[index];
  return {workspace_.rope_table(index),
          static_cast<int>(table.inverse_frequency.size()),
          table.magnitude,
          table.style == core::RopeStyle::split,
          table.span,
          batch_.places() ? workspace_.rope_axes(index) : nullptr, // without places: the position
          batch_.places()};
}

// All that a kernel's fit depends on, without a batch's values.
RopeStoreArgs KernelLauncher::rope_store_shape(const HeadsStep& h) const {
  RopeStoreArgs args = {};
  args.q_norm = weights_.vector(h.q_norm);
  args.k_norm = weights_.vector(h.k_norm);
  args.normalizes_v = h.normalizes_v;
  args.epsilon = h.epsilon;
  args.q_heads = static_cast<int>(h.q_heads);
  args.k_heads = static_cast<int>(h.k_heads);
  args.head_dim = static_cast<int>(h.head_dim);
  args.rotate = true;
  args.rope = rope_args(h.table);
  args.store = true;
  args.cache = cache_.layer(h.kv_layer);
  return args;
}

RopeStoreArgs KernelLauncher::rope_store_args(const BatchPlan& plan, const RopeStore& call) const {
  const HeadsStep& h = call.heads;
  RopeStoreArgs args = rope_store_shape(h);
  args.dataflow_input = call.dataflow_input;
  args.positions = batch_.device().positions;
  args.streams = batch_.device().streams;
  args.tokens = static_cast<int>(plan.shape.tokens);
  args.q_in = value(plan, h.q_in);
  args.k_in = value(plan, h.k_in);
  args.v_in = value(plan, h.v_in);
  args.q_out = value(plan, h.q_out);
  return args;
}

AttentionArgs KernelLauncher::attention_shape(const PlanShape& shape, const Attention& call,
                                              const Launch& launch) const {
  const core::Op& op = *call.op;
  const auto& params = std::get<core::AttentionParams>(op.params);
  AttentionArgs args = {};
  args.tokens = static_cast<int>(call.rows);
  args.heads = static_cast<int>(params.heads);
  args.scale = params.scale;
  args.visible = {static_cast<int>(params.window), params.chunked, params.causal, params.in_blocks,
                  params.causal && params.block_ahead};
  args.soft_cap = params.soft_cap;
  args.max_bias = params.max_bias;
  args.reach = static_cast<int>(params.reach);
  if (!op.weights.empty()) (params.reach > 0 ? args.biases : args.sinks) = weights_.vector(op.weights[0]);
  args.cache = cache_.layer(params.layer);
  args.group = Divisor(args.heads / args.cache.heads);
  args.tile_tokens = config_.batch_invariant || !call.one_run || shape.distinct_streams || params.window > 0
                         ? 1
                         : std::clamp(kAttentionRows / args.group.by, 1, kAttentionRows);
  const int tiles = (args.tokens + args.tile_tokens - 1) / args.tile_tokens;
  const int64_t seen = params.window > 0 ? std::min(params.window, config_.context) : config_.context;
  const auto splits = [&](int64_t of_tiles) {
    return attention_splits(of_tiles * args.cache.heads, args.cache.k_dim, seen, launch.sm_count);
  };
  args.splits = config_.batch_invariant ? std::min(kInvariantSplits, splits(1))
                : tiles > kGraphTokens  ? 1
                                        : splits(tiles);
  args.partial = workspace_.attention_partial();
  args.tickets = workspace_.attention_tickets();
  return args;
}

AttentionArgs KernelLauncher::attention_args(const BatchPlan& plan, const Attention& call, const Launch& launch) const {
  const core::Op& op = *call.op;
  AttentionArgs args = attention_shape(plan.shape, call, launch);
  args.q = value(plan, op.inputs[0]) + call.first_row * width(op.inputs[0]);
  args.out = value(plan, call.out) + call.first_row * width(call.out);
  if (call.half) {
    args.out_half = workspace_.half_x();
    args.half_layout = *call.half;
    args.half_tile = Divisor(wide_tile_rows(args.tokens));
    args.exponents = workspace_.exponents();
  }
  args.positions = batch_.device().positions + call.first_row;
  args.streams = batch_.device().streams + call.first_row;
  if (sees_ahead(std::get<core::AttentionParams>(op.params), plan.shape))
    args.places = batch_.places() + call.first_row;
  if (op.kind == core::OpKind::sparse_attention) {
    args.chosen = ids(plan, op.inputs[1]);
    args.most = static_cast<int>(width(op.inputs[1]));
  }
  args.stamps = launch.stamps();
  return args;
}

void KernelLauncher::run(const BatchPlan& plan, const RopeAttention& call, const Launch& launch) {
  launch_rope_attention(launch, attention_args(plan, call.attention, launch), rope_store_args(plan, call.rope),
                        call.attention.one_run);
}

void KernelLauncher::run(const BatchPlan& plan, const PromptRope& call, const Launch& launch) {
  launch_prompt_rope(launch, rope_store_args(plan, call));
}

void KernelLauncher::run(const BatchPlan& plan, const RopeStore& call, const Launch& launch) {
  launch_rope_store(launch, rope_store_args(plan, call));
}

void KernelLauncher::run(const BatchPlan& plan, const LatentStore& call, const Launch& launch) {
  const LatentStep& step = call.latent;
  cuda::launch_latent_store(launch, {.positions = batch_.device().positions,
                                     .streams = batch_.device().streams,
                                     .tokens = static_cast<int>(plan.shape.tokens),
                                     .c = value(plan, step.c_in),
                                     .r = value(plan, step.r_in),
                                     .c_norm = weights_.vector(step.c_norm),
                                     .epsilon = step.epsilon,
                                     .q_in = value(plan, step.q_in),
                                     .q_out = value(plan, step.q_out),
                                     .q_heads = static_cast<int>(step.q_heads),
                                     .rotate = true,
                                     .rope = rope_args(step.table),
                                     .cache = cache_.layer(step.kv_layer)});
}

void KernelLauncher::run(const BatchPlan& plan, const Attention& call, const Launch& launch) {
  launch_attention(launch, attention_args(plan, call, launch));
}

void KernelLauncher::run(const BatchPlan& plan, const PlainAttention& call, const Launch& launch) {
  launch_plain_attention(launch, attention_args(plan, call, launch));
}

bool KernelLauncher::unpacks_cache(Cache cache, int heads) const {
  if (!workspace_.unpacked_cache() || !cache.k_codes() || !cache.v_codes()) return false;
  cache.k_half = cache.v_half = true;
  return cuda::can_attend_prompts(cache, heads);
}

void KernelLauncher::run(const BatchPlan& plan, const PromptAttention& call, const Launch& launch) {
  AttentionArgs args = attention_args(plan, call, launch);
  if (context_.limits().prompt_products) {
    if (unpacks_cache(args.cache, args.heads)) {
      args.cache = launch_unpack_cache(launch, args, workspace_.unpacked_cache());
      args.streams = workspace_.zero_streams();
      args.stamps = launch.stamps();
    }
    if (cuda::can_attend_prompts(args.cache, args.heads)) return launch_prompt_attention(launch, args);
  }
  launch_mma_attention(launch, args);
}

void KernelLauncher::run(const BatchPlan& plan, const LatentAttention& call, const Launch& launch) {
  LatentArgs args = latent_args(plan, call, launch);
  if (!config_.batch_invariant)
    return context_.limits().prompt_products && can_attend_latent_prompts(launch, args)
               ? launch_latent_prompt_attention(launch, args)
               : launch_latent_attention(launch, args);
  args.tokens_share_tiles = false;
  Launch piece = launch;
  for (int left = args.tokens; left > 0; left -= args.tokens) {
    args.tokens = std::min(kInvariantTokens, left);
    piece.sm_count = args.tokens * (launch.sm_count / kInvariantLatentShare); // which the splits follow
    launch_latent_attention(piece, args);
    const int64_t rows = int64_t{args.tokens} * args.heads.by;
    args.q += rows * args.cache.v_dim;
    args.q_rest += rows * (args.cache.k_dim - args.cache.v_dim);
    args.out += rows * args.cache.v_dim;
    args.positions += args.tokens;
    args.streams += args.tokens;
    if (args.chosen) args.chosen += int64_t{args.tokens} * args.most;
  }
}

void KernelLauncher::run(const BatchPlan& plan, const PlainLatentAttention& call, const Launch& launch) {
  launch_plain_latent_attention(launch, latent_args(plan, call, launch));
}

LatentArgs KernelLauncher::latent_args(const BatchPlan& plan, const LatentAttention& call, const Launch& launch) const {
  const std::vector<core::ValueId>& inputs = call.op->inputs;
  const auto* mixed = std::get_if<core::MixedParams>(&call.op->params);
  const core::AttentionParams params =
      mixed ? core::AttentionParams{mixed->layer, mixed->heads, mixed->scale, mixed->window}
            : std::get<core::AttentionParams>(call.op->params);
  LatentArgs args = {};
  args.q = value(plan, inputs[0]);
  args.q_rest = value(plan, inputs[mixed ? 0 : 1]);
  args.out = value(plan, call.out);
  args.positions = batch_.device().positions;
  args.streams = batch_.device().streams;
  args.tokens = static_cast<int>(plan.shape.tokens);
  args.heads = Divisor(params.heads);
  args.scale = params.scale;
  args.cache = cache_.layer(params.layer);
  args.stamps = launch.stamps();
  if (mixed) {
    args.entries = cache_.layer(mixed->entries);
    args.span = static_cast<int>(program_.kv_layers[mixed->entries].span);
  }
  if (mixed ? inputs[1] != inputs[0] : inputs.size() > 2) {
    args.chosen = ids(plan, inputs.back());
    args.most = static_cast<int>(width(inputs.back()));
  }
  if (sees_ahead(params, plan.shape)) args.places = batch_.places();
  if (!call.op->weights.empty()) args.sinks = weights_.vector(call.op->weights[0]);
  args.window = static_cast<int>(params.window);
  const bool own_keys = args.chosen || mixed;
  args.tokens_share_tiles = !own_keys && plan.shape.tile_tokens > 1 && !plan.shape.distinct_streams;
  args.lone_tokens = !own_keys && plan.shape.distinct_streams;
  args.most_splits = static_cast<int>(std::min<int64_t>(launch.sm_count, (config_.context + 63) / 64));
  args.partial = workspace_.latent_partial();
  return args;
}

void KernelLauncher::run(const BatchPlan& plan, const IndexChoice& call, const Launch& launch) {
  const auto& params = std::get<core::IndexParams>(call.op->params);
  IndexArgs args = {};
  args.q = value(plan, call.op->inputs[0]);
  if (!params.unweighted) args.weights = value(plan, call.op->inputs[1]);
  args.chosen = ids(plan, call.out);
  args.positions = batch_.device().positions;
  args.streams = batch_.device().streams;
  args.tokens = static_cast<int>(plan.shape.tokens);
  args.heads = static_cast<int>(params.heads);
  args.most = static_cast<int>(width(call.out));
  args.span = static_cast<int>(program_.kv_layers[params.layer].span);
  args.tail = params.tail;
  args.chooses_positions = params.chooses_positions;
  args.cache = cache_.layer(params.layer);
  args.scores = workspace_.index_scores();
  launch_index_choice(launch, args);
}

void KernelLauncher::run(const BatchPlan& plan, const SortExperts& call, const Launch& launch) {
  if (call.of_heads)
    return launch_head_slots(launch, static_cast<int>(call.rows / call.experts), static_cast<int>(call.experts),
                             call.tile_tokens, workspace_.slot_order(), workspace_.slot_places(),
                             workspace_.expert_tiles(), workspace_.tile_count());
  launch_group_slots(launch, ids(plan, call.ids), static_cast<int>(call.rows), static_cast<int>(call.experts),
                     call.tile_tokens, workspace_.slot_order(), workspace_.slot_places(), workspace_.expert_tiles(),
                     workspace_.tile_count());
}

void KernelLauncher::run(const BatchPlan& plan, const FetchExperts& call, const Launch& launch) {
  if (const ExpertCacheArgs* cache = experts_.of_ids(call.ids))
    launch_fetch_experts(launch, *cache, ids(plan, call.ids), static_cast<int>(call.rows), value(plan, call.x),
                         static_cast<int>(call.x_rows));
}

void KernelLauncher::run(const BatchPlan& plan, const ReceiveExperts& call, const Launch& launch) {
  if (const ExpertCacheArgs* cache = experts_.of_ids(call.ids))
    launch_receive_experts(launch, cache->cpu, value(plan, call.out), static_cast<int>(call.rows));
}

// Only plain_attention supports these.
static bool is_plain(const core::AttentionParams& params) { return params.max_bias > 0 || params.reach > 0; }

bool KernelLauncher::can_rope_in_attention(const HeadsStep& heads, bool one_run) const {
  const auto& params = std::get<core::AttentionParams>(heads.attention->params);
  if (is_plain(params) || !params.causal) return false;
  const PlanShape shape = one_run ? PlanShape{2, 1, kAttentionRows, false} : PlanShape{1, 1, 1, true};
  const Launch launch = context_.launch();
  const Attention attention{heads.attention, heads.attention->outputs[0], shape.tokens, 0, one_run};
  return can_fuse_rope(launch, attention_shape(shape, attention, launch), rope_store_shape(heads), one_run);
}

AttentionFit KernelLauncher::fit_of(const core::Op& attention) const {
  if (const auto* mixed = std::get_if<core::MixedParams>(&attention.params))
    return {.fast = fast_latent_attention(cache_.layer(mixed->layer), context_.launch())};
  const auto* params = std::get_if<core::AttentionParams>(&attention.params);
  if (!params) return {};
  const Cache& cache = cache_.layer(params->layer);
  const Launch launch = context_.launch();
  if (attention.kind == core::OpKind::latent_attention || attention.kind == core::OpKind::chosen_attention)
    return {.fast = params->window == 0 && attention.weights.empty() && fast_latent_attention(cache, launch)};
  const auto heads = static_cast<int>(params->heads);
  AttentionFit fit{.writes_half = cache.v_half && !wide_attention(cache, launch)};
  if (is_plain(*params)) return fit;
  fit.fast = fast_attention(cache, params->soft_cap, launch) && heads / cache.heads <= kAttentionRows;
  fit.prompts = (context_.limits().prompt_products && can_attend_prompts(cache, heads)) ||
                can_attend_by_mma(cache, heads, launch);
  return fit;
}

std::vector<AttentionFit> KernelLauncher::attention_fits(const Plan& plan) const {
  std::vector<AttentionFit> fits;
  for (const Step& step : plan.steps) {
    const auto* heads = step.get<HeadsStep>();
    const core::Op* attention = heads ? heads->attention : step.op;
    AttentionFit& fit = fits.emplace_back(attention ? fit_of(*attention) : AttentionFit{});
    if (!heads) continue;
    fit.ropes_prompts = heads->q_in != kNone && heads->k_in != kNone && heads->v_in != kNone &&
                        can_rope_prompts(rope_store_shape(*heads));
    if (!heads->attention) continue;
    fit.ropes_tokens = can_rope_in_attention(*heads, false);
    fit.ropes_run = can_rope_in_attention(*heads, true);
  }
  return fits;
}

void KernelLauncher::run(const BatchPlan& plan, const Sum& call, const Launch& launch) {
  SumArgs args = {};
  static_assert(SumArgs::kMaxTerms == SumStep::kMaxTerms);
  for (const SumStep::Term& term : call.sum.terms) {
    const bool has_factors = term.factors != kNone;
    args.terms[args.count++] = {value(plan, term.x), value(plan, term.factors),
                                has_factors ? static_cast<int>(program_.values[term.factors].width) : 1, term.gated,
                                term.scale};
  }
  args.out = value(plan, call.out);
  args.rows = call.rows;
  args.width = program_.values[call.out].width;
  args.dataflow_input = call.dataflow_input;
  cuda::launch_sum(launch, args);
}

void KernelLauncher::run(const BatchPlan& plan, const Norm& call, const Launch& launch) {
  const NormStep& norm = call.norm;
  cuda::launch_norm(launch, {.x = value(plan, norm.x),
                             .weight = weights_.vector(norm.weight),
                             .gate = value(plan, norm.gate),
                             .out = value(plan, call.out),
                             .groups = call.rows * program_.values[norm.x].width / norm.group,
                             .group = norm.group,
                             .weight_groups = Divisor(program_.weights[norm.weight].cols / norm.group),
                             .epsilon = norm.epsilon,
                             .gates_input = norm.gates_input,
                             .residual = value(plan, norm.residual),
                             .scale = norm.scale,
                             .factor = norm.factor,
                             .dataflow_input = call.dataflow_input});
}

static Sequences sequences_of(const PlanShape& shape, int64_t streams) {
  if (shape.distinct_streams) return {Sequences::Kind::token_each, static_cast<int>(shape.tokens)};
  if (shape.tile_tokens > 1) return {Sequences::Kind::one, 1};
  return {Sequences::Kind::mixed, static_cast<int>(streams)};
}

OpCall KernelLauncher::op_call(const BatchPlan& plan, const PlainOp& call) const {
  const core::Op& op = *call.op;
  const BatchMemory::Arrays& batch = batch_.device();
  OpCall args = {.program = program_,
                 .op = op,
                 .rows = call.rows,
                 .exact = config_.exact || config_.batch_invariant,
                 .tokens = static_cast<int>(plan.shape.tokens),
                 .token_ids = batch.tokens,
                 .positions = batch.positions,
                 .streams = batch.streams,
                 .outputs = batch.outputs};
  for (size_t i = 0; i < op.inputs.size(); ++i) args.in[i] = value(plan, op.inputs[i]);
  for (size_t i = 0; i < call.outputs.size(); ++i) args.out[i] = value(plan, call.outputs[i]);
  for (size_t i = 0; i < op.weights.size(); ++i) args.weight_data[i] = weights_[op.weights[i]].data;
  if (const auto* rope = std::get_if<core::RopeParams>(&op.params)) args.rope = rope_args(rope->table);
  if (plan.shape.has_given_rows) args.given_rows = batch_.rows();
  args.adapters = batch_.adapters();
  if (const auto* store = std::get_if<core::KvParams>(&op.params)) args.cache = cache_.layer(store->layer);
  core::OpParams params = op.params;
  if (const int32_t* state = core::state_layer(params)) {
    args.state = states_.layer(*state);
    args.sequences = sequences_of(plan.shape, config_.streams);
  }
  return args;
}

} // namespace ridge::kernels::cuda
