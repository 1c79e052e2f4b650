// Multi-head latent attention (DeepSeek-V2): keys and values of all heads derive from one cached row per token, c, and
// a rotated part r that all heads share.
// A head's key is k_b c followed by r. Since q · (k_b c) = (k_bᵀ q) · c, queries are multiplied instead of keys
// ("absorbed") and all heads attend to the same rows; v_b follows attention. Files store k_b transposed. Older ones
// have attn_kv_b, k_b and v_b interleaved per head, from which k_b is decoded and transposed here.
#include "core/error.h"
#include "models/blocks/blocks.h"
#include "models/blocks/rope.h"

#include <cmath>

namespace ridge::models {

using core::OpKind;
using core::ValueId;
using core::WeightId;

core::Weight Builder::head_rows(const std::string& tensor, int64_t cols, int64_t tensor_rows, int64_t heads,
                                int64_t first, int64_t rows) {
  core::Weight weight = tensor_weight(tensor, cols, tensor_rows, 1);
  weight.rows = weight.run_rows = rows;
  weight.count = heads;
  weight.run_stride = tensor_rows / heads * weight.row_bytes;
  weight.data += first * weight.row_bytes;
  return weight;
}

WeightId Builder::transposed(const core::Weight& heads, std::string_view part) {
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
  return add_weight(std::move(out));
}

// k_b, transposed, and v_b. If keys have no latent part, k_b gives `rest` zeros.
std::pair<WeightId, WeightId> Builder::latent_matrices(const std::string& blk, int64_t heads, int64_t nope,
                                                       int64_t v_dim, int64_t rank, int64_t rest) {
  if (nope > 0 && has(blk + "attn_k_b.weight"))
    return {weight(blk + "attn_k_b.weight", nope, rank, heads), weight(blk + "attn_v_b.weight", rank, v_dim, heads)};
  const std::string both = blk + "attn_kv_b.weight";
  const int64_t per_head = nope + v_dim;
  core::Weight v_b = head_rows(both, rank, heads * per_head, heads, nope, v_dim);
  v_b.part = "v";
  v_b.name += " v"; // importance matrices cover whole tensors
  const WeightId k_b = nope > 0 ? transposed(head_rows(both, rank, heads * per_head, heads, 0, nope), "k")
                                : constant(both + " k", heads * rank * rest, 0);
  if (nope == 0) {
    core::Weight& zeros = program_.weights[k_b];
    zeros.cols = rest;
    zeros.rows = rank;
    zeros.count = heads;
    zeros.row_bytes = rest * static_cast<int64_t>(sizeof(float));
  }
  return {k_b, add_weight(std::move(v_b))};
}

namespace {

// YaRN's magnitude for a context `factor` times longer.
double yarn_magnitude(double factor, double multiplier) {
  return factor > 1 ? 1 + 0.1 * multiplier * std::log(factor) : 1;
}

} // namespace

LatentSpec Builder::latent_spec(double multiplier, double rope_multiplier) const {
  const Hparams& h = hparams_;
  const std::string_view type = file_.get_string(h.key("rope.scaling.type"), "");
  double factor =
      h.get_float(file_.find(h.key("rope.scaling.factor")) ? "rope.scaling.factor" : "rope.scale_linear", 1);
  if (factor == 0 || type == "none") factor = 1;
  const double longer = 1 + 0.1 * std::log(factor), given = h.get_float("rope.scaling.attn_factor", 1);
  LatentSpec spec;
  spec.rope_magnitude = given;
  if (type == "yarn")
    spec.rope_magnitude *= yarn_magnitude(factor, rope_multiplier) / yarn_magnitude(factor, multiplier);
  const double magnitude = (type == "yarn" ? spec.rope_magnitude : given * longer) * (1 + multiplier * (longer - 1));
  spec.score_scale = magnitude * magnitude;
  if (!std::isfinite(spec.score_scale) || !std::isfinite(spec.rope_magnitude))
    throw_error("{}: {} is {}, expected a number above 0", file_.path(), h.key("rope.scaling.factor"), factor);
  return spec;
}

ValueId Builder::latent_rope(ValueId x, const std::string& name, int64_t head_dim, int64_t rotated, Rope rope,
                             const LatentSpec& spec) {
  if (rotated == 0 || rope == Rope::none) return x;
  if (spec.plain_rope)
    return this->rope(x, name, {.rope = rope, .k_dim = head_dim, .rope_dims = rotated, .rope_base = spec.rope_base});
  const auto [at, is_new] = latent_tables_.try_emplace(rope, static_cast<int32_t>(program_.rope_tables.size()));
  if (is_new) {
    const auto style = rope == Rope::adjacent ? core::RopeStyle::adjacent : core::RopeStyle::split;
    program_.rope_tables.push_back(
        make_rope_table(file_, hparams_, {.style = style, .dims = rotated, .factors = false}));
    program_.rope_tables.back().magnitude = static_cast<float>(spec.rope_magnitude);
  }
  return emit(OpKind::rope, name, {x}, width_of(x), {}, core::RopeParams{at->second, width_of(x) / head_dim, head_dim});
}

// Means of the last keys, by a softmax of gates per token and place.
ValueId Builder::pooled_keys(ValueId x, ValueId keys, const std::string& blk, int64_t kernel) {
  const int64_t dim = width_of(keys);
  const ValueId gate = linear(x, blk + "indexer_compressor_gate", dim);
  const WeightId bias = flat_vector(blk + "indexer_compressor_ape.weight", kernel * dim);
  const int32_t state = new_state(blk + "index_pool", 2 * (kernel - 1) * dim);
  return emit(OpKind::pool, blk + "index_pool", {keys, gate}, dim, {bias}, core::PoolParams{state, kernel});
}

// DeepSeek-V3.2's indexer. `q`: the input of the layer's queries.
ValueId Builder::chosen_positions(ValueId x, ValueId q, const std::string& blk, int64_t rotated,
                                  const LatentSpec& spec) {
  const Hparams& h = hparams_;
  const int64_t heads = h.positive_int("attention.indexer.head_count", kMaxHeads),
                dim = h.positive_int("attention.indexer.key_length", kMaxHeadDim),
                top = h.positive_int("attention.indexer.top_k", kMaxContext),
                span = spec.index_pools ? h.positive_int("attention.indexer.kpool", 256) : 1;
  if (rotated > dim)
    throw_error("{}: {} rotated dimensions are more than the {} of {}", file_.path(), rotated, dim,
                h.key("attention.indexer.key_length"));
  if (top % span != 0)
    throw_error("{}: {} is {}, expected a multiple of {}", file_.path(), h.key("attention.indexer.top_k"), top, span);
  const bool tail = span > 1 && h.get_bool("attention.indexer.kpool_select_tail", true);
  const int64_t most = std::min(top, std::max(h.context() / span, int64_t{1}) * span) + (tail ? span - 1 : 0);
  // Permuting heads does not change products with keys.
  const auto rotated_first = [&](ValueId x, const char* name) {
    return spec.index_rope_last ? last_first(x, blk + name, dim, rotated) : x;
  };
  const ValueId queries = latent_rope(rotated_first(linear(q, blk + "indexer.attn_q_b", heads * dim), "index_q_order"),
                                      blk + "index_q_rope", dim, rotated, spec.index_rope, spec);
  const std::string norm = blk + "indexer.k_norm";
  std::vector<WeightId> weights = {vector(norm + ".weight", dim)};
  if (has(norm + ".bias")) weights.push_back(vector(norm + ".bias", dim));
  ValueId key = emit(OpKind::layer_norm, norm, {linear(x, blk + "indexer.attn_k", dim)}, dim, std::move(weights),
                     core::NormParams{static_cast<float>(spec.index_epsilon), dim});
  if (span > 1) key = pooled_keys(x, key, blk, span);
  key = latent_rope(rotated_first(key, "index_k_order"), blk + "index_k_rope", dim, rotated, spec.index_rope, spec);
  const ValueId shares = linear(x, blk + "indexer.proj", heads);
  return best_positions(queries, shares, key, blk, span, most, {.heads = heads, .tail = tail});
}

void Builder::skip_indexer(int64_t il) {
  for (const char* unused : {".k_norm.weight", ".k_norm.bias", ".proj.weight", ".attn_k.weight", ".attn_q_b.weight",
                             "_compressor_gate.weight", "_compressor_ape.weight"})
    skip(fmt::format("blk.{}.indexer{}", il, unused));
}

ValueId Builder::latent_attention(ValueId x, int64_t il, const LatentSpec& spec) {
  const Hparams& h = hparams_;
  const std::string blk = fmt::format("blk.{}.", il);
  const int64_t heads = h.heads(il),
                rank = spec.rank ? *spec.rank : h.positive_int("attention.kv_lora_rank", kMaxHeadDim);
  const int64_t k_dim = spec.k_dim ? *spec.k_dim : h.latent_k_dim(il),
                v_dim = spec.v_dim ? *spec.v_dim : h.latent_v_dim(il);
  const int64_t rotated = spec.rope == Rope::none ? h.get_int("rope.dimension_count") : h.rope_dims(k_dim);
  const int64_t nope = k_dim - rotated;
  if (rotated < 0 || nope < 0)
    throw_error("{}: {} rotated dimensions leave no rest of keys of {}", file_.path(), rotated, k_dim);

  std::string q_tensor = blk + "attn_q";
  ValueId q_in = x;
  if (!has(q_tensor + ".weight")) {
    q_in = rms_norm(linear(x, blk + "attn_q_a", h.positive_int("attention.q_lora_rank", kMaxWidth)),
                    blk + "attn_q_a_norm");
    q_tensor = blk + "attn_q_b";
  }
  if (spec.sees == LatentSpec::AttendedPositions::own_choice) chosen_ = chosen_positions(x, q_in, blk, rotated, spec);
  if (spec.sees != LatentSpec::AttendedPositions::all && chosen_ < 0)
    throw_error("{}: layer {} uses the selection of an earlier layer, but no layer has an indexer", file_.path(), il);
  // Each head has `nope` rows, then its rotated ones.
  ValueId q = nope > 0 ? linear_of(q_in, q_tensor, {"nope", heads * k_dim, 0, heads * nope, nope, k_dim}) : -1;
  const ValueId c =
      rms_norm(linear_of(x, blk + "attn_kv_a_mqa", {"c", rank + rotated, 0, rank}), blk + "attn_kv_a_norm");
  ValueId q_r = -1, r = c;
  if (rotated > 0) {
    q_r = linear_of(q_in, q_tensor, {"rope", heads * k_dim, nope, heads * rotated, rotated, k_dim});
    r = linear_of(x, blk + "attn_kv_a_mqa", {"rope", rank + rotated, rank, rotated});
    if (spec.rope_norm) r = rms_norm(r, blk + "attn_k_norm");
    q_r = latent_rope(q_r, blk + "q_rope", rotated, rotated, spec.rope, spec);
  }
  if (spec.position_scale)
    for (ValueId* part : {&q, &q_r})
      if (*part >= 0)
        *part = emit(OpKind::position_scale, blk + "q_scale", {*part}, width_of(*part), {}, *spec.position_scale);

  if (nope == 0) q = q_r;

  const auto layer = static_cast<int32_t>(program_.kv_layers.size());
  program_.kv_layers.push_back({1, rank + rotated, rank, true});
  program_.ops.push_back({OpKind::latent_store,
                          layer_,
                          blk + "kv_store",
                          {c, latent_rope(r, blk + "k_rope", rotated, rotated, spec.rope, spec)},
                          {},
                          {},
                          core::KvParams{layer}});
  const ValueId ids = value(blk + "head_ids", heads, false, core::ValueKind::i32);
  program_.ops.push_back({OpKind::head_ids, layer_, blk + "head_ids", {}, {ids}, {}, {}});
  const auto [k_b, v_b] = latent_matrices(blk, heads, nope, v_dim, rank, rotated);
  const ValueId q_c =
      emit(OpKind::expert_linear, blk + "attn_k_b", {q, ids}, heads * rank, {k_b}, core::ExpertParams{heads});
  if (q_r < 0) q_r = q_c;
  const double scale = spec.score_scale / std::sqrt(static_cast<double>(k_dim));
  const core::AttentionParams params = {layer, heads, static_cast<float>(scale),
                                        spec.window < h.context() ? spec.window : 0};
  std::vector<WeightId> sinks;
  if (spec.sinks) sinks.push_back(vector(blk + "attn_sinks.weight", heads));
  ValueId attended = -1;
  if (spec.sees == LatentSpec::AttendedPositions::all)
    attended = emit(OpKind::latent_attention, blk + "attention", {q_c, q_r}, heads * rank, sinks, params);
  else
    attended = emit(OpKind::chosen_attention, blk + "attention", {q_c, q_r, chosen_}, heads * rank, sinks, params);
  ValueId values =
      emit(OpKind::expert_linear, blk + "attn_v_b", {attended, ids}, heads * v_dim, {v_b}, core::ExpertParams{heads});
  if (spec.gate)
    values = glu(core::Activation::sigmoid, attention_gate(x, blk, heads, v_dim), values, blk + "attn_gate");
  return linear(values, blk + "attn_output", h.width());
}

} // namespace ridge::models
