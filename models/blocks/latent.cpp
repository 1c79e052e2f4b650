// Multi-head latent attention (DeepSeek-V2): keys and values of all heads derive from one cached row per token, c, and
// a rotated part r that all heads share.
// A head's key is k_b c followed by r. Since q · (k_b c) = (k_bᵀ q) · c, queries are multiplied instead of keys
// ("absorbed") and all heads attend to the same rows; v_b follows attention. Files store k_b transposed. Older ones
// have attn_kv_b, k_b and v_b interleaved per head, from which k_b is decoded and transposed here.
#include "core/error.h"
#include "models/blocks/blocks.h"
#include "models/blocks/rope.h"

#include <cmath>

namespace ridge::models::blocks {

using core::OpKind;
using core::ValueId;
using core::WeightId;

core::Weight head_rows(Builder& b, const std::string& tensor, int64_t cols, int64_t tensor_rows, int64_t heads,
                       int64_t first, int64_t rows) {
  core::Weight weight = b.tensor_weight(tensor, cols, tensor_rows, 1);
  weight.rows = weight.run_rows = rows;
  weight.count = heads;
  weight.run_stride = tensor_rows / heads * weight.row_bytes;
  weight.data += first * weight.row_bytes;
  return weight;
}

static WeightId transposed(Builder& b, const core::Weight& heads, std::string_view part) {
  core::Weight out = heads;
  out.type = core::kFloatType;
  out.part = part;
  out.name = fmt::format("{} {}", heads.name, part);
  out.cols = heads.rows;
  out.rows = heads.cols;
  out.row_bytes = out.cols * static_cast<int64_t>(sizeof(float));
  out.run_rows = out.run_stride = 0;
  auto data = std::make_shared<std::vector<std::byte>>(out.total_bytes());
  auto* to = reinterpret_cast<float*>(data->data());
  const quant::FormatInfo& format = *quant::find_format(heads.type);
  std::vector<float> row(heads.cols);
  for (int64_t i = 0; i < heads.count * heads.rows; ++i) {
    format.decode(heads.row(i), heads.cols, row.data());
    float* matrix = to + i / heads.rows * out.rows * out.cols;
    for (int64_t j = 0; j < heads.cols; ++j) matrix[j * out.cols + i % heads.rows] = row[j];
  }
  out.data = data->data();
  out.owned = std::move(data);
  return b.add_weight(std::move(out));
}

// k_b, transposed, and v_b. If keys have no latent part, k_b gives `rest` zeros.
static std::pair<WeightId, WeightId> latent_matrices(Builder& b, const std::string& blk, int64_t heads, int64_t nope,
                                                     int64_t v_dim, int64_t rank, int64_t rest) {
  if (nope > 0 && b.has(blk + "attn_k_b.weight"))
    return {b.weight(blk + "attn_k_b.weight", nope, rank, heads),
            b.weight(blk + "attn_v_b.weight", rank, v_dim, heads)};
  const std::string both = blk + "attn_kv_b.weight";
  const int64_t per_head = nope + v_dim;
  core::Weight v_b = head_rows(b, both, rank, heads * per_head, heads, nope, v_dim);
  v_b.part = "v";
  v_b.name += " v"; // importance matrices cover whole tensors
  const WeightId k_b = nope > 0 ? transposed(b, head_rows(b, both, rank, heads * per_head, heads, 0, nope), "k")
                                : b.constant(both + " k", heads * rank * rest, 0);
  if (nope == 0) {
    core::Weight& zeros = b.program().weights[k_b];
    zeros.cols = rest;
    zeros.rows = rank;
    zeros.count = heads;
    zeros.row_bytes = rest * static_cast<int64_t>(sizeof(float));
  }
  return {k_b, b.add_weight(std::move(v_b))};
}

namespace {

// YaRN's magnitude for a context `factor` times longer.
double yarn_magnitude(double factor, double multiplier) {
  return factor > 1 ? 1 + 0.1 * multiplier * std::log(factor) : 1;
}

} // namespace

LatentSpec latent_spec(const Builder& b, double multiplier, double rope_multiplier) {
  const Hparams& h = b.hparams();
  const std::string_view type = b.file().get_string(h.key("rope.scaling.type"), "");
  double factor =
      h.get_float(b.file().find(h.key("rope.scaling.factor")) ? "rope.scaling.factor" : "rope.scale_linear", 1);
  if (factor == 0 || type == "none") factor = 1;
  const double longer = 1 + 0.1 * std::log(factor), given = h.get_float("rope.scaling.attn_factor", 1);
  LatentSpec spec;
  spec.rope_magnitude = given;
  if (type == "yarn")
    spec.rope_magnitude *= yarn_magnitude(factor, rope_multiplier) / yarn_magnitude(factor, multiplier);
  const double magnitude = (type == "yarn" ? spec.rope_magnitude : given * longer) * (1 + multiplier * (longer - 1));
  spec.score_scale = magnitude * magnitude;
  if (!std::isfinite(spec.score_scale) || !std::isfinite(spec.rope_magnitude))
    throw_error("{}: {} is {}, expected a number above 0", b.file().path(), h.key("rope.scaling.factor"), factor);
  return spec;
}

static ValueId latent_rope(Builder& b, ValueId x, const std::string& name, int64_t head_dim, int64_t rotated, Rope rope,
                           const LatentSpec& spec) {
  if (rotated == 0 || rope == Rope::none) return x;
  if (spec.plain_rope)
    return blocks::rope(b, x, name,
                        {.rope = rope, .k_dim = head_dim, .rope_dims = rotated, .rope_base = spec.rope_base});
  const auto [at, is_new] =
      b.shared().latent_tables.try_emplace(rope, static_cast<int32_t>(b.program().rope_tables.size()));
  if (is_new) {
    const auto style = rope == Rope::adjacent ? core::RopeStyle::adjacent : core::RopeStyle::split;
    b.program().rope_tables.push_back(
        make_rope_table(b.file(), b.hparams(), {.style = style, .dims = rotated, .factors = false}));
    b.program().rope_tables.back().magnitude = static_cast<float>(spec.rope_magnitude);
  }
  return b.emit(OpKind::rope, name, {x}, b.width_of(x), {},
                core::RopeParams{at->second, b.width_of(x) / head_dim, head_dim});
}

// Means of the last keys, by a softmax of gates per token and place.
static ValueId pooled_keys(Builder& b, ValueId x, ValueId keys, const std::string& blk, int64_t kernel) {
  const int64_t dim = b.width_of(keys);
  const ValueId gate = b.linear(x, blk + "indexer_compressor_gate", dim);
  const WeightId bias = b.flat_vector(blk + "indexer_compressor_ape.weight", kernel * dim);
  const int32_t state = new_state(b, blk + "index_pool", 2 * (kernel - 1) * dim);
  return b.emit(OpKind::pool, blk + "index_pool", {keys, gate}, dim, {bias}, core::PoolParams{state, kernel});
}

// DeepSeek-V3.2's indexer. `q`: the input of the layer's queries.
static ValueId chosen_positions(Builder& b, ValueId x, ValueId q, const std::string& blk, int64_t rotated,
                                const LatentSpec& spec) {
  const Hparams& h = b.hparams();
  const int64_t heads = h.positive_int("attention.indexer.head_count", kMaxHeads),
                dim = h.positive_int("attention.indexer.key_length", kMaxHeadDim),
                top = h.positive_int("attention.indexer.top_k", kMaxContext),
                span = spec.index_pools ? h.positive_int("attention.indexer.kpool", 256) : 1;
  if (rotated > dim)
    throw_error("{}: {} rotated dimensions are more than the {} of {}", b.file().path(), rotated, dim,
                h.key("attention.indexer.key_length"));
  if (top % span != 0)
    throw_error("{}: {} is {}, expected a multiple of {}", b.file().path(), h.key("attention.indexer.top_k"), top,
                span);
  const bool tail = span > 1 && h.get_bool("attention.indexer.kpool_select_tail", true);
  const int64_t most = std::min(top, std::max(h.context() / span, int64_t{1}) * span) + (tail ? span - 1 : 0);
  // Permuting heads does not change products with keys.
  const auto rotated_first = [&](ValueId x, const char* name) {
    return spec.index_rope_last ? last_first(b, x, blk + name, dim, rotated) : x;
  };
  const ValueId queries =
      latent_rope(b, rotated_first(b.linear(q, blk + "indexer.attn_q_b", heads * dim), "index_q_order"),
                  blk + "index_q_rope", dim, rotated, spec.index_rope, spec);
  const std::string norm = blk + "indexer.k_norm";
  std::vector<WeightId> weights = {b.vector(norm + ".weight", dim)};
  if (b.has(norm + ".bias")) weights.push_back(b.vector(norm + ".bias", dim));
  ValueId key = b.emit(OpKind::layer_norm, norm, {b.linear(x, blk + "indexer.attn_k", dim)}, dim, std::move(weights),
                       core::NormParams{static_cast<float>(spec.index_epsilon), dim});
  if (span > 1) key = pooled_keys(b, x, key, blk, span);
  key = latent_rope(b, rotated_first(key, "index_k_order"), blk + "index_k_rope", dim, rotated, spec.index_rope, spec);
  const ValueId shares = b.linear(x, blk + "indexer.proj", heads);
  return best_positions(b, queries, shares, key, blk, span, most, {.heads = heads, .tail = tail});
}

void skip_indexer(Builder& b, int64_t il) {
  for (const char* unused : {".k_norm.weight", ".k_norm.bias", ".proj.weight", ".attn_k.weight", ".attn_q_b.weight",
                             "_compressor_gate.weight", "_compressor_ape.weight"})
    b.skip(fmt::format("blk.{}.indexer{}", il, unused));
}

ValueId latent_attention(Builder& b, ValueId x, int64_t il, const LatentSpec& spec) {
  const Hparams& h = b.hparams();
  const std::string blk = fmt::format("blk.{}.", il);
  const int64_t heads = h.heads(il),
                rank = spec.rank ? *spec.rank : h.positive_int("attention.kv_lora_rank", kMaxHeadDim);
  const int64_t k_dim = spec.k_dim ? *spec.k_dim : h.latent_k_dim(il),
                v_dim = spec.v_dim ? *spec.v_dim : h.latent_v_dim(il);
  const int64_t rotated = spec.rope == Rope::none ? h.get_int("rope.dimension_count") : h.rope_dims(k_dim);
  const int64_t nope = k_dim - rotated;
  if (rotated < 0 || nope < 0)
    throw_error("{}: {} rotated dimensions leave no rest of keys of {}", b.file().path(), rotated, k_dim);

  std::string q_tensor = blk + "attn_q";
  ValueId q_in = x;
  if (!b.has(q_tensor + ".weight")) {
    q_in = b.rms_norm(b.linear(x, blk + "attn_q_a", h.positive_int("attention.q_lora_rank", kMaxWidth)),
                      blk + "attn_q_a_norm");
    q_tensor = blk + "attn_q_b";
  }
  if (spec.sees == LatentSpec::AttendedPositions::own_choice)
    b.shared().chosen = chosen_positions(b, x, q_in, blk, rotated, spec);
  if (spec.sees != LatentSpec::AttendedPositions::all && b.shared().chosen < 0)
    throw_error("{}: layer {} uses the selection of an earlier layer, but no layer has an indexer", b.file().path(),
                il);
  // Each head has `nope` rows, then its rotated ones.
  ValueId q = nope > 0 ? b.linear_of(q_in, q_tensor, {"nope", heads * k_dim, 0, heads * nope, nope, k_dim}) : -1;
  const ValueId c =
      b.rms_norm(b.linear_of(x, blk + "attn_kv_a_mqa", {"c", rank + rotated, 0, rank}), blk + "attn_kv_a_norm");
  ValueId q_r = -1, r = c;
  if (rotated > 0) {
    q_r = b.linear_of(q_in, q_tensor, {"rope", heads * k_dim, nope, heads * rotated, rotated, k_dim});
    r = b.linear_of(x, blk + "attn_kv_a_mqa", {"rope", rank + rotated, rank, rotated});
    if (spec.rope_norm) r = b.rms_norm(r, blk + "attn_k_norm");
    q_r = latent_rope(b, q_r, blk + "q_rope", rotated, rotated, spec.rope, spec);
  }
  if (spec.position_scale)
    for (ValueId* part : {&q, &q_r})
      if (*part >= 0)
        *part = b.emit(OpKind::position_scale, blk + "q_scale", {*part}, b.width_of(*part), {}, *spec.position_scale);

  if (nope == 0) q = q_r;

  const auto layer = static_cast<int32_t>(b.program().kv_layers.size());
  b.program().kv_layers.push_back({1, rank + rotated, rank, true});
  b.program().ops.push_back({OpKind::latent_store,
                             b.layer_index(),
                             blk + "kv_store",
                             {c, latent_rope(b, r, blk + "k_rope", rotated, rotated, spec.rope, spec)},
                             {},
                             {},
                             core::KvParams{layer}});
  const ValueId ids = b.value(blk + "head_ids", heads, false, core::ValueKind::i32);
  b.program().ops.push_back({OpKind::head_ids, b.layer_index(), blk + "head_ids", {}, {ids}, {}, {}});
  const auto [k_b, v_b] = latent_matrices(b, blk, heads, nope, v_dim, rank, rotated);
  const ValueId q_c =
      b.emit(OpKind::expert_linear, blk + "attn_k_b", {q, ids}, heads * rank, {k_b}, core::ExpertParams{heads});
  if (q_r < 0) q_r = q_c;
  const double scale = spec.score_scale / std::sqrt(static_cast<double>(k_dim));
  const core::AttentionParams params = {layer, heads, static_cast<float>(scale),
                                        spec.window < h.context() ? spec.window : 0};
  std::vector<WeightId> sinks;
  if (spec.sinks) sinks.push_back(b.vector(blk + "attn_sinks.weight", heads));
  ValueId attended = -1;
  if (spec.sees == LatentSpec::AttendedPositions::all)
    attended = b.emit(OpKind::latent_attention, blk + "attention", {q_c, q_r}, heads * rank, sinks, params);
  else
    attended =
        b.emit(OpKind::chosen_attention, blk + "attention", {q_c, q_r, b.shared().chosen}, heads * rank, sinks, params);
  ValueId values =
      b.emit(OpKind::expert_linear, blk + "attn_v_b", {attended, ids}, heads * v_dim, {v_b}, core::ExpertParams{heads});
  if (spec.gate)
    values = glu(b, core::Activation::sigmoid, attention_gate(b, x, blk, heads, v_dim), values, blk + "attn_gate");
  return b.linear(values, blk + "attn_output", h.width());
}

} // namespace ridge::models::blocks
