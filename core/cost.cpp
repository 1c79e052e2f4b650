// All byte formulas of the project.
#include "core/rings.h"

#include <algorithm>
#include <cmath>

namespace ridge::core {
namespace {

constexpr double kValueBytes = 4; // f32 or i32

int64_t rows_of(const ValueInfo& value, const Step& step) { return value.gathered ? step.outputs : step.tokens; }

double elements_of(const Program& program, ValueId id, const Step& step) {
  return static_cast<double>(program.values[id].width * rows_of(program.values[id], step));
}

double bytes_per_token(const KvLayer& kv, double k_bytes, double v_bytes) {
  if (kv.latent) return static_cast<double>(kv.k_dim) * k_bytes / static_cast<double>(kv.span);
  return static_cast<double>(kv.heads) *
         (static_cast<double>(kv.k_dim) * k_bytes + static_cast<double>(kv.v_dim) * v_bytes);
}

// Each stream's state is read and written once.
double state_bytes(const Program& program, int32_t state, const Step& step) {
  return 2 * kValueBytes * static_cast<double>(step.streams * program.states[state].width);
}

// Each operand counts once.
Cost whole_operands(const Program& program, const Op& op, const Step& step) {
  Cost cost;
  for (ValueId id : op.inputs) cost.activation_bytes += kValueBytes * elements_of(program, id, step);
  for (ValueId id : op.outputs) cost.activation_bytes += kValueBytes * elements_of(program, id, step);
  for (WeightId id : op.weights) cost.weight_bytes += static_cast<double>(program.weights[id].total_bytes());
  if (!op.inputs.empty()) cost.flops = info_of(op.kind).flops * elements_of(program, op.inputs[0], step);
  return cost;
}

void set_embed_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  cost.weight_bytes = static_cast<double>(step.tokens * program.weights[op.weights[0]].row_bytes);
}

void set_ngram_embed_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  const auto& params = std::get<NgramParams>(op.params);
  cost.weight_bytes = static_cast<double>(step.tokens * params.heads() * program.weights[op.weights[0]].row_bytes +
                                          program.weights[op.weights[1]].total_bytes());
  cost.state_bytes = state_bytes(program, params.state, step);
}

// Only picked columns are read.
void set_permute_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  cost.activation_bytes = 2 * kValueBytes * elements_of(program, op.outputs[0], step);
}

void set_gather_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  cost.activation_bytes = 2 * kValueBytes * elements_of(program, op.outputs[0], step);
}

void set_linear_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  const Weight& w = program.weights[op.weights[0]];
  cost.flops = 2 * elements_of(program, op.outputs[0], step) * static_cast<double>(w.cols);
}

// If routing is even, n tokens that choose `used` of E experts touch E (1 - (1 - used/E)^n) of them.
void set_expert_linear_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  const Weight& w = program.weights[op.weights[0]];
  const auto rows = static_cast<double>(rows_of(program.values[op.outputs[0]], step));
  const auto experts = static_cast<double>(w.count);
  const auto used = static_cast<double>(std::get<ExpertParams>(op.params).used);
  const double touched = experts * (1 - std::pow(1 - used / experts, rows));
  cost.weight_bytes = touched * static_cast<double>(w.matrix_bytes());
  if (op.weights.size() > 1) cost.weight_bytes += touched * kValueBytes * static_cast<double>(w.rows);
  cost.flops = 2 * rows * used * static_cast<double>(w.rows) * static_cast<double>(w.cols);
}

void set_route_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  if (op.weights.size() < 3) return;
  const auto used = std::get<RouteParams>(op.params).used;
  cost.weight_bytes += static_cast<double>(step.tokens * used * 4 - program.weights[op.weights[2]].total_bytes());
}

void set_expert_sum_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  cost.flops =
      2 * elements_of(program, op.outputs[0], step) * static_cast<double>(std::get<ExpertParams>(op.params).used);
}

void set_kv_store_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  const KvLayer& kv = program.kv_layers[std::get<KvParams>(op.params).layer];
  cost.kv_bytes = static_cast<double>(step.tokens) * bytes_per_token(kv, step.k_bytes, step.v_bytes);
}

// Counts (query, key) pairs. Without a causal mask as many are ahead as behind. Blocks are taken as largest.
double visible_pairs(const AttentionParams& params, double tokens) {
  const auto growing = [](double n) { return n * (n + 1) / 2; };
  const auto window = static_cast<double>(params.window);
  if (params.in_blocks) return tokens * std::min(window, tokens);
  if (!params.causal) {
    AttentionParams behind = params;
    behind.causal = true;
    return 2 * visible_pairs(behind, tokens) - tokens;
  }
  if (params.window == 0 || tokens <= window) return growing(tokens);
  if (!params.chunked) return growing(window) + (tokens - window) * window;
  const double chunks = std::floor(tokens / window);
  return chunks * growing(window) + growing(tokens - chunks * window);
}

// Each cache is read once for all tokens of its stream.
void set_attention_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  const auto& params = std::get<AttentionParams>(op.params);
  const KvLayer& kv = program.kv_layers[params.layer];
  const auto streams = static_cast<double>(step.streams), past = static_cast<double>(step.past);
  const double end = past + static_cast<double>(step.tokens) / streams;
  cost.kv_bytes = streams * (end - static_cast<double>(params.first_seen(step.past))) *
                  bytes_per_token(kv, step.k_bytes, step.v_bytes);
  const double pairs = streams * (visible_pairs(params, end) - visible_pairs(params, past));
  cost.flops = 2 * pairs * static_cast<double>(params.heads * (kv.k_dim + kv.v_dim));
}

void set_index_choice_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  const auto& params = std::get<IndexParams>(op.params);
  const KvLayer& kv = program.kv_layers[params.layer];
  const auto streams = static_cast<double>(step.streams), past = static_cast<double>(step.past);
  const double end = past + static_cast<double>(step.tokens) / streams;
  cost.kv_bytes = streams * end * bytes_per_token(kv, step.k_bytes, step.v_bytes);
  const double pairs = streams * (visible_pairs({}, end) - visible_pairs({}, past)) / static_cast<double>(kv.span);
  cost.flops = 2 * pairs * static_cast<double>(params.heads * kv.k_dim);
}

// Tokens read their chosen keys, together at most the whole cache.
void set_chosen_attention_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  const auto& params = std::get<AttentionParams>(op.params);
  const KvLayer& kv = program.kv_layers[params.layer];
  const AttentionParams chosen = {.window = program.values[op.inputs.back()].width};
  const auto streams = static_cast<double>(step.streams), past = static_cast<double>(step.past);
  const double end = past + static_cast<double>(step.tokens) / streams;
  const double pairs = streams * (visible_pairs(chosen, end) - visible_pairs(chosen, past));
  cost.kv_bytes = std::min(pairs, streams * end) * bytes_per_token(kv, step.k_bytes, step.v_bytes);
  cost.flops = 2 * pairs * static_cast<double>(params.heads * (kv.k_dim + kv.v_dim));
}

void set_mixed_attention_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  const auto& params = std::get<MixedParams>(op.params);
  const KvLayer &rows = program.kv_layers[params.layer], &entries = program.kv_layers[params.entries];
  const auto streams = static_cast<double>(step.streams), past = static_cast<double>(step.past);
  const double end = past + static_cast<double>(step.tokens) / streams;
  const auto pairs = [&](int64_t window) {
    return streams * (visible_pairs({.window = window}, end) - visible_pairs({.window = window}, past));
  };
  const bool chosen = op.inputs[1] != op.inputs[0];
  const double near = pairs(params.window), far = pairs(chosen ? program.values[op.inputs[1]].width : 0);
  cost.kv_bytes =
      streams * (end - static_cast<double>(params.first_seen(step.past))) *
          bytes_per_token(rows, step.k_bytes, step.v_bytes) +
      (chosen ? std::min(far, streams * end) : streams * end) * bytes_per_token(entries, step.k_bytes, step.v_bytes);
  cost.flops = 4 * (near + far / static_cast<double>(entries.span)) * static_cast<double>(params.heads * rows.k_dim);
}

void set_hyper_join_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  const auto count = static_cast<double>(program.values[op.inputs[1]].width / program.values[op.inputs[0]].width);
  const bool mixes = program.values[op.inputs[2]].width > static_cast<int64_t>(count);
  cost.flops = 2 * (mixes ? 1 + count : 1) * elements_of(program, op.outputs[0], step);
}

void set_conv1d_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  const auto& params = std::get<ConvParams>(op.params);
  cost.state_bytes = state_bytes(program, params.state, step);
  cost.flops = 2 * static_cast<double>(params.kernel) * elements_of(program, op.outputs[0], step);
}

void set_pool_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  const auto& params = std::get<PoolParams>(op.params);
  cost.state_bytes = state_bytes(program, params.state, step);
  cost.flops = 4 * static_cast<double>(params.kernel) * elements_of(program, op.outputs[0], step);
}

// Per element of S: decay, S k, S q, rank-1 update.
void set_delta_rule_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  const auto& params = std::get<DeltaParams>(op.params);
  cost.state_bytes = state_bytes(program, params.state, step);
  const double read = static_cast<double>(2 * params.k_heads + params.v_heads) * static_cast<double>(params.dim) +
                      static_cast<double>(program.values[op.inputs[3]].width + program.values[op.inputs[4]].width);
  cost.activation_bytes =
      kValueBytes * (static_cast<double>(step.tokens) * read + elements_of(program, op.outputs[0], step));
  cost.flops = 7 * static_cast<double>(params.dim) * elements_of(program, op.outputs[0], step);
}

// Per element of S: decay, update, product with c.
void set_scan_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  const auto& params = std::get<ScanParams>(op.params);
  const int64_t width = params.heads * params.head_dim;
  cost.state_bytes = state_bytes(program, params.state, step);
  cost.activation_bytes =
      kValueBytes * static_cast<double>(step.tokens * (2 * width + 2 * params.groups * params.states + params.heads));
  cost.flops = 5 * static_cast<double>(step.tokens * width * params.states);
}

// Per element of S: decay, rank-1 updates (RWKV 7: two), products with r and the factors of decay and bonus (RWKV 7:
// d).
void set_wkv_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  const auto& params = std::get<WkvParams>(op.params);
  cost.state_bytes = state_bytes(program, params.state, step);
  const double flops = op.kind == OpKind::wkv7 ? 9 : 5;
  cost.flops = flops * static_cast<double>(params.dim) * elements_of(program, op.outputs[0], step);
}

// This rank's values go to every other rank, and as many come from each.
void set_exchange_cost(Cost& cost, const Program& program, const Op& op, const Step& step) {
  const auto others = static_cast<double>(std::get<RankParams>(op.params).ranks - 1);
  cost.link_bytes = others * kValueBytes * elements_of(program, op.inputs[0], step);
  if (op.kind != OpKind::all_reduce) return;
  cost.activation_bytes += cost.link_bytes;
  cost.flops = others * elements_of(program, op.inputs[0], step);
}

} // namespace

Cost& Cost::operator+=(const Cost& other) {
  weight_bytes += other.weight_bytes;
  kv_bytes += other.kv_bytes;
  state_bytes += other.state_bytes;
  activation_bytes += other.activation_bytes;
  flops += other.flops;
  link_bytes += other.link_bytes;
  return *this;
}

Cost op_cost(const Program& program, const Op& op, const Step& step) {
  Cost cost = whole_operands(program, op, step);
  switch (op.kind) {
  case OpKind::embed: set_embed_cost(cost, program, op, step); break;
  case OpKind::ngram_embed: set_ngram_embed_cost(cost, program, op, step); break;
  case OpKind::permute: set_permute_cost(cost, program, op, step); break;
  case OpKind::gather: set_gather_cost(cost, program, op, step); break;
  case OpKind::linear: set_linear_cost(cost, program, op, step); break;
  case OpKind::route: set_route_cost(cost, program, op, step); break;
  case OpKind::expert_linear: set_expert_linear_cost(cost, program, op, step); break;
  case OpKind::expert_sum: set_expert_sum_cost(cost, program, op, step); break;
  case OpKind::kv_store:
  case OpKind::latent_store:
  case OpKind::index_store: set_kv_store_cost(cost, program, op, step); break;
  case OpKind::index_choice: set_index_choice_cost(cost, program, op, step); break;
  case OpKind::sparse_attention:
  case OpKind::chosen_attention: set_chosen_attention_cost(cost, program, op, step); break;
  case OpKind::mixed_attention: set_mixed_attention_cost(cost, program, op, step); break;
  case OpKind::attention:
  case OpKind::latent_attention: set_attention_cost(cost, program, op, step); break;
  case OpKind::all_reduce:
  case OpKind::all_gather: set_exchange_cost(cost, program, op, step); break;
  case OpKind::conv1d: set_conv1d_cost(cost, program, op, step); break;
  case OpKind::hyper_join: set_hyper_join_cost(cost, program, op, step); break;
  case OpKind::pool: set_pool_cost(cost, program, op, step); break;
  case OpKind::delta_rule: set_delta_rule_cost(cost, program, op, step); break;
  case OpKind::scan: set_scan_cost(cost, program, op, step); break;
  case OpKind::wkv:
  case OpKind::wkv7: set_wkv_cost(cost, program, op, step); break;
  default: break;
  }
  return cost;
}

Cost program_cost(const Program& program, const Step& step) {
  Cost total;
  for (const Op& op : program.ops) total += op_cost(program, op, step);
  return total;
}

double kv_cache_bytes(const Program& program, const ExecutorConfig& config, int64_t tokens) {
  const double k_bytes = bytes_per_element(config.k_type), v_bytes = bytes_per_element(config.v_type);
  const std::vector<CacheRows> layers = cache_rows(program, config);
  double bytes = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const int64_t held = layers[i].is_ring() ? std::min(tokens, layers[i].rows) : tokens;
    bytes += static_cast<double>(held) * bytes_per_token(program.kv_layers[i], k_bytes, v_bytes);
  }
  return bytes;
}

int64_t state_elements(const Program& program) {
  int64_t elements = 0;
  for (const StateLayer& state : program.states) elements += state.width;
  return elements;
}

} // namespace ridge::core
