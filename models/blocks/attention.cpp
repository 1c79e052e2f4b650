// Attention: projections, norms, rope, cache, gate, output.
#include "core/error.h"
#include "models/blocks/blocks.h"
#include "models/blocks/rope.h"

#include <algorithm>
#include <cmath>

namespace ridge::models::blocks {

using core::OpKind;
using core::ValueId;

ValueId rope(Builder& b, ValueId x, const std::string& name, const AttentionSpec& spec) {
  if (spec.rope == Rope::none) return x;
  return b.emit(OpKind::rope, name, {x}, b.width_of(x), {},
                core::RopeParams{rope_table(b, spec), b.width_of(x) / *spec.k_dim, *spec.k_dim});
}

int32_t rope_table(Builder& b, const AttentionSpec& spec) {
  const RopeSpec wanted = {spec.rope == Rope::adjacent ? core::RopeStyle::adjacent : core::RopeStyle::split,
                           *spec.rope_dims,
                           spec.rope_base,
                           spec.rope_divisor,
                           spec.rope_scaling,
                           spec.rope_factors,
                           spec.rope_axes,
                           spec.rope_span};
  const auto [at, is_new] =
      b.shared().rope_tables.try_emplace(wanted, static_cast<int32_t>(b.program().rope_tables.size()));
  if (is_new) {
    b.program().rope_tables.push_back(make_rope_table(b.file(), b.hparams(), wanted));
    for (const char* tensor : {"rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"})
      b.skip(tensor);
  }
  return at->second;
}

// Fills unset fields from the file. Throws Error for what the ops cannot compute.
AttentionSpec resolved(const Builder& b, AttentionSpec spec, int64_t il) {
  const Hparams& h = b.hparams();
  if (!spec.heads) spec.heads = h.heads(il);
  if (!spec.kv_heads) spec.kv_heads = h.kv_heads(il);
  if (!spec.k_dim) spec.k_dim = h.k_dim(il);
  if (!spec.v_dim) spec.v_dim = h.v_dim(il);
  if (!spec.rope_dims && spec.rope != Rope::none) spec.rope_dims = h.rope_dims(*spec.k_dim);
  if (!spec.scale) spec.scale = h.get_float("attention.scale", 0);
  if (*spec.scale == 0) spec.scale = 1 / std::sqrt(static_cast<double>(*spec.k_dim));
  constexpr std::string_view kWindow = "attention.sliding_window";
  if (const int64_t window = spec.window ? *spec.window : h.layer_int(kWindow, il, 0);
      window < 0 || (!spec.window && window > 0 && window < h.context()))
    h.refuse(kWindow, std::to_string(window), "sliding windows are");

  if (!spec.causal) spec.causal = h.get_bool("attention.causal", true);
  constexpr std::string_view kSoftCap = "attn_logit_softcapping";
  if (!spec.soft_cap) {
    if (const double cap = h.get_float(kSoftCap, 0); cap != 0)
      h.refuse(kSoftCap, fmt::format("{}", cap), "soft caps of attention scores are");
    spec.soft_cap = 0;
  } else if (!(*spec.soft_cap >= 0 && std::isfinite(*spec.soft_cap))) {
    throw_error("{}: {} is {}, expected a number above 0", b.file().path(), h.key(kSoftCap), *spec.soft_cap);
  }
  if (!(spec.max_bias >= 0 && std::isfinite(spec.max_bias)))
    throw_error("{}: {} is {}, expected a number above 0", b.file().path(), h.key("attention.max_alibi_bias"),
                spec.max_bias);
  return spec;
}

ValueId attention_gate(Builder& b, ValueId x, const std::string& blk, int64_t heads, int64_t v_dim) {
  const bool per_head = b.sides_of(blk + "attn_gate.weight").second == heads;
  return b.linear(x, blk + "attn_gate", per_head ? heads : heads * v_dim);
}

struct QueryKeyValue {
  ValueId q, gate, k, v;
};

// From attn_qkv or three tensors. With an output gate, each head of q is followed by its gate. Layers that reuse a
// cache have only queries.
static QueryKeyValue queries_keys_values(Builder& b, ValueId x, const std::string& blk, const AttentionSpec& spec) {
  const int64_t dim = *spec.k_dim, per_head = spec.output_gate ? 2 * dim : dim;
  const int64_t q = *spec.heads * per_head, k = *spec.kv_heads * dim, v = *spec.kv_heads * *spec.v_dim;
  const int64_t v_at = spec.qkv_thirds ? 2 * q : q + k;
  const bool fused = b.has(blk + "attn_qkv.weight");
  const std::string q_tensor = blk + (fused ? "attn_qkv" : "attn_q");
  int64_t q_rows = !fused ? q : spec.qkv_thirds ? 3 * q : q + k + v;
  if (fused && spec.qkv_has_more) q_rows = std::max(q_rows, b.sides_of(q_tensor + ".weight").second);
  QueryKeyValue made = {-1, -1, -1, -1};
  if (spec.output_gate) {
    if (!spec.qkv_bias) b.skip(q_tensor + ".bias");
    made.q = b.linear_of(x, q_tensor, {"q", q_rows, 0, *spec.heads * dim, dim, per_head}, "", spec.qkv_bias);
    made.gate = b.linear_of(x, q_tensor, {"gate", q_rows, dim, *spec.heads * dim, dim, per_head}, "", spec.qkv_bias);
  } else {
    made.q = fused ? b.linear_of(x, q_tensor, {"q", q_rows, 0, q}, blk + "attn_q.bias")
                   : b.linear(x, q_tensor, q, spec.qkv_bias);
  }
  if (spec.gate_matrix) made.gate = attention_gate(b, x, blk, *spec.heads, *spec.v_dim);
  if (spec.kv_of) {
    for (const char* unused : {"attn_k.weight", "attn_k.bias", "attn_k_norm.weight", "attn_v.weight", "attn_v.bias"})
      b.skip(blk + unused);
    return made;
  }
  made.k = fused ? b.linear_of(x, q_tensor, {"k", q_rows, q, k}, blk + "attn_k.bias")
                 : b.linear(x, blk + "attn_k", k, spec.qkv_bias);
  if (spec.k_is_v && !fused && !b.has(blk + "attn_v.weight"))
    made.v = made.k;
  else
    made.v = fused ? b.linear_of(x, q_tensor, {"v", q_rows, v_at, v}, blk + "attn_v.bias")
                   : b.linear(x, blk + "attn_v", v, spec.qkv_bias);
  return made;
}

static ValueId q_or_k(Builder& b, ValueId x, const std::string& blk, std::string_view which,
                      const AttentionSpec& spec) {
  const auto normed = [&](ValueId value) {
    return b.group_norm(value, fmt::format("{}attn_{}_norm", blk, which),
                        spec.norms_whole_rows ? b.width_of(value) : *spec.k_dim, b.norm_kind());
  };
  if (spec.qk_norm && !spec.norms_behind_rope) x = normed(x);
  x = rope(b, x, fmt::format("{}{}_rope", blk, which), spec);
  if (spec.qk_norm && spec.norms_behind_rope) x = normed(x);
  return spec.qk_unit_norm ? b.unit_norm(x, fmt::format("{}attn_{}_norm", blk, which), *spec.k_dim) : x;
}

// Stores normed, rotated keys and values. Returns the cache's index.
static int32_t store_keys_values(Builder& b, ValueId k, ValueId v, const std::string& blk, const AttentionSpec& spec) {
  k = q_or_k(b, k, blk, "k", spec);
  if (spec.v_norm) v = b.unit_norm(v, blk + "attn_v_norm", *spec.v_dim);
  const auto layer = static_cast<int32_t>(b.program().kv_layers.size());
  b.program().kv_layers.push_back({*spec.kv_heads, *spec.k_dim, *spec.v_dim});
  b.program().ops.push_back(
      {OpKind::kv_store, b.layer_index(), blk + "kv_store", {k, v}, {}, {}, core::KvParams{layer}});
  return layer;
}

constexpr std::string_view kBiasTensor = "attn_rel_b.weight";
constexpr int64_t kBiasReach = 128; // larger distances are equivalent

// T5's bias per head and distance. Encoders use half of the buckets for later positions. In each half, the first half
// are single distances, the others grow logarithmically up to kBiasReach.
static core::WeightId distance_bias(Builder& b, const std::string& blk, const AttentionSpec& spec) {
  constexpr std::string_view kBuckets = "attention.relative_buckets_count";
  const int64_t heads = *spec.heads, buckets = b.hparams().positive_int(kBuckets, kMaxHeads),
                half = spec.bias_ahead ? buckets / 2 : buckets, exact = half / 2;
  if (exact == 0) throw_error("{}: {} is {}, expected at least 4", b.file().path(), b.hparams().key(kBuckets), buckets);
  const auto bucket_of = [&](int64_t ahead) {
    const int64_t distance = spec.bias_ahead ? std::abs(ahead) : std::max<int64_t>(-ahead, 0);
    const int64_t first = spec.bias_ahead && ahead > 0 ? half : 0;
    if (distance < exact) return first + distance;
    const auto first_wide = static_cast<double>(exact); // rounded as in training
    const float octaves = std::log(static_cast<float>(static_cast<double>(distance) / first_wide));
    const double wide = octaves * static_cast<float>(half - exact) / std::log(kBiasReach / first_wide);
    return first + std::min(half - 1, static_cast<int64_t>(std::floor(static_cast<float>(first_wide + wide))));
  };
  const core::Weight table = b.tensor_weight(blk + std::string(kBiasTensor), heads, buckets, 1);
  std::vector<float> row(heads), biases(heads * (2 * kBiasReach + 1));
  for (int64_t ahead = -kBiasReach; ahead <= kBiasReach; ++ahead) {
    quant::find_format(table.type)->decode(table.row(bucket_of(ahead)), heads, row.data());
    for (int64_t head = 0; head < heads; ++head) biases[head * (2 * kBiasReach + 1) + kBiasReach + ahead] = row[head];
  }
  return b.constant(blk + "attention biases", biases);
}

// Throws Error unless the cache of layer `il` fits the heads of the layer that reuses it.
static int32_t cache_of(const Builder& b, int64_t il, const AttentionSpec& spec) {
  const auto found = b.shared().cache_of_layer.find(il);
  if (found == b.shared().cache_of_layer.end())
    throw_error("{}: layer {} has no keys and values for other layers to share", b.file().path(), il);
  const core::KvLayer& kv = b.program().kv_layers[found->second];
  if (kv.heads != *spec.kv_heads || kv.k_dim != *spec.k_dim || kv.v_dim != *spec.v_dim)
    throw_error("{}: layers that share the keys and values of layer {} have different heads", b.file().path(), il);
  return found->second;
}

ValueId attention(Builder& b, ValueId x, int64_t il, const AttentionSpec& wanted) {
  const std::string blk = b.layer_name(il);
  const AttentionSpec spec = resolved(b, wanted, il);
  const int64_t heads = *spec.heads, v_dim = *spec.v_dim;
  auto [q, gate, k, v] = queries_keys_values(b, x, blk, spec);
  if (const double limit = b.hparams().get_float("attention.clamp_kqv", 0); limit > 0)
    for (ValueId* value : {&q, &k, &v})
      if (*value >= 0)
        *value = b.emit(OpKind::activate, b.program().values[*value].name + " clamp", {*value}, b.width_of(*value), {},
                        core::ActivationParams{.limit = static_cast<float>(limit)});
  q = q_or_k(b, q, blk, "q", spec);
  if (spec.position_scale)
    q = b.emit(OpKind::position_scale, blk + "q_scale", {q}, b.width_of(q), {}, *spec.position_scale);
  const int32_t layer = spec.kv_of ? cache_of(b, *spec.kv_of, spec) : store_keys_values(b, k, v, blk, spec);
  b.shared().cache_of_layer[il] = layer;

  const int64_t window =
      spec.window.value_or(0) < b.hparams().context() ? spec.window.value_or(0) : 0; // longer windows have no effect
  core::AttentionParams params = {layer,
                                  heads,
                                  static_cast<float>(*spec.scale),
                                  window,
                                  spec.chunked && window > 0,
                                  static_cast<float>(*spec.soft_cap),
                                  static_cast<float>(spec.max_bias),
                                  *spec.causal};
  params.block_ahead = spec.block_ahead;
  std::vector<core::WeightId> weights;
  if (spec.sinks) weights.push_back(b.vector(blk + "attn_sinks.weight", heads));
  if (spec.distance_bias) {
    params.reach = kBiasReach;
    weights.push_back(distance_bias(b, b.has(blk + std::string(kBiasTensor)) ? blk : b.layer_name(0), spec));
  }
  ValueId attended = spec.chosen ? b.emit(OpKind::sparse_attention, blk + "attention", {q, *spec.chosen}, heads * v_dim,
                                          weights, params)
                                 : b.emit(OpKind::attention, blk + "attention", {q}, heads * v_dim, weights, params);
  if (gate >= 0) attended = glu(b, spec.gate, gate, attended, blk + "attn_gate");
  if (spec.output_norm) attended = b.norm(attended, blk + "attn_sub_norm");
  return b.linear(attended, blk + std::string(spec.output_tensor), b.hparams().width(), spec.output_bias);
}

} // namespace ridge::models::blocks
