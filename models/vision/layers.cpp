// Layers of an encoder.
#include "core/error.h"
#include "models/vision/builder.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace ridge::models::vision {

using core::OpKind;
using core::ValueId;

ValueId Builder::part_of(ValueId x, const std::string& name, const char* part, int64_t first, int64_t rows,
                         int64_t all) {
  core::Weight weight = view(name + ".weight", width_of(x), all);
  weight.part = part;
  weight.rows = rows;
  weight.data += first * weight.row_bytes;
  std::vector<core::WeightId> weights = {add_weight(std::move(weight))};
  if (has(name + ".bias")) {
    const std::vector<float> bias = values(name + ".bias", all);
    weights.push_back(constant(name + ".bias " + part, std::span(bias).subspan(first, rows)));
  }
  return emit(OpKind::linear, fmt::format("{} {}", name, part), {x}, rows, std::move(weights));
}

std::array<ValueId, 3> Builder::split_qkv(ValueId x, const std::string& name, int64_t q_rows, int64_t kv_rows) {
  const int64_t all = q_rows + 2 * kv_rows;
  return {part_of(x, name, "q", 0, q_rows, all), part_of(x, name, "k", q_rows, kv_rows, all),
          part_of(x, name, "v", q_rows + kv_rows, kv_rows, all)};
}

ValueId Builder::times_heads(ValueId x, int64_t heads, const std::string& name, std::span<const float> matrix,
                             std::span<const float> bias) {
  const auto for_all = [&](std::span<const float> one) {
    std::vector<float> all;
    for (int64_t h = 0; h < heads; ++h) all.insert(all.end(), one.begin(), one.end());
    return all;
  };
  return times_each_head(x, heads, name, for_all(matrix), for_all(bias));
}

ValueId Builder::times_each_head(ValueId x, int64_t heads, const std::string& name, std::span<const float> matrices,
                                 std::span<const float> biases) {
  const int64_t rows = std::ssize(biases) / heads;
  const core::WeightId matrix = constant(name, matrices, rows * heads);
  core::Weight& weight = program().weights[matrix];
  weight.rows = rows;
  weight.count = heads;
  const core::WeightId bias = constant(name + ".bias", biases);
  const ValueId ids = emit(OpKind::head_ids, name + ".ids", {}, heads);
  program().values[ids].kind = core::ValueKind::i32;
  return emit(OpKind::expert_linear, name, {x, ids}, heads * rows, {matrix, bias}, core::ExpertParams{heads});
}

ValueId Builder::head_norm(ValueId x, const std::string& name, Norm kind, int64_t head_dim) {
  const gguf::Tensor* weights = file_.find_tensor(name + ".weight");
  if (!weights) return x;
  return norm(x, name, kind, epsilon(), weights->weights() == width_of(x) ? width_of(x) : head_dim);
}

ValueId Builder::attention(ValueId x, int64_t il, const LayerSpec& spec) {
  const std::string blk = own(fmt::format("blk.{}.", il));
  const int64_t heads = hparams_.heads(), dim = hparams_.head_dim();
  const int64_t kv_heads = hparams_.count_or("attention.head_count_kv", heads, heads);
  if (heads % kv_heads != 0)
    throw_error("{}: {} heads are not a multiple of {} KV heads", file_.path(), heads, kv_heads);
  const int64_t q_rows = heads * dim, kv_rows = kv_heads * dim;
  ValueId q, k, v;
  if (const std::string qkv = blk + "attn_qkv"; has(qkv + ".weight")) {
    std::tie(q, k, v) = std::tuple_cat(split_qkv(x, qkv, q_rows, kv_rows));
  } else {
    q = linear(x, blk + "attn_q", q_rows);
    k = linear(x, blk + "attn_k", kv_rows);
    v = linear(x, blk + "attn_v", kv_rows);
  }
  q = head_norm(q, blk + "attn_q_norm", spec.norm, dim);
  k = head_norm(k, blk + "attn_k_norm", spec.norm, dim);
  if (spec.v_norm) v = unit_norm(v, blk + "attn_v_norm", dim);
  if (spec.rope >= 0) {
    for (ValueId* value : {&q, &k}) {
      const std::string name = program().values[*value].name;
      if (!spec.head_order.empty()) *value = permute(*value, name + " order", spec.head_order, dim);
      *value = emit(OpKind::rope, name + " rope", {*value}, width_of(*value), {},
                    core::RopeParams{spec.rope, width_of(*value) / dim, dim});
    }
  }
  core::AttentionParams params = {.heads = heads};
  params.scale = static_cast<float>(spec.scale > 0 ? spec.scale : 1 / std::sqrt(static_cast<double>(dim)));
  if (spec.in_blocks && spec.in_blocks(il)) {
    params.in_blocks = true;
    params.window = spec.window;
  }
  return linear(attend(q, k, v, blk, {kv_heads, dim, dim}, params), blk + "attn_out", hparams_.width());
}

ValueId Builder::attend(ValueId q, ValueId k, ValueId v, const std::string& name, const core::KvLayer& heads,
                        core::AttentionParams params, bool causal) {
  params.layer = static_cast<int32_t>(program().kv_layers.size());
  params.causal = causal;
  program().kv_layers.push_back(heads);
  program().ops.push_back({OpKind::kv_store, layer_, name + "kv_store", {k, v}, {}, {}, core::KvParams{params.layer}});
  return emit(OpKind::attention, name + "attention", {q}, params.heads * heads.v_dim, {}, params);
}

ValueId Builder::attend_to_seen(ValueId q, ValueId k, ValueId v, const std::string& name, std::span<const float> hidden,
                                core::KvLayer heads, const core::AttentionParams& params) {
  // one more element per head: 1 in q, `hidden` in k
  q = before_heads(q, params.heads, rows(name + " looks", std::vector<float>(hidden.size(), 1), 1), name + " q");
  k = before_heads(k, heads.heads, rows(name + " hidden", hidden, 1), name + " k");
  ++heads.k_dim;
  return attend(q, k, v, name, heads, params);
}

ValueId Builder::ffn(ValueId x, int64_t il, const LayerSpec& spec) {
  const std::string blk = own(fmt::format("blk.{}.", il));
  std::string up = blk + "ffn_up", down = blk + "ffn_down";
  // Converters of 2024 swapped the two names.
  if (const gguf::Tensor* matrix = file_.find_tensor(down + ".weight");
      spec.may_swap_ffn && matrix && matrix->dims[0] == hparams_.width())
    std::swap(up, down);
  ValueId hidden = linear(x, up);
  if (const std::string gate = blk + "ffn_gate"; has(gate + ".weight"))
    hidden = emit(OpKind::glu, blk + "glu", {linear(x, gate, width_of(hidden)), hidden}, width_of(hidden), {},
                  spec.activation);
  else
    hidden = activate(hidden, blk + "activation", spec.activation);
  return linear(hidden, down, hparams_.width());
}

ValueId Builder::layer(ValueId x, int64_t il, const LayerSpec& spec) {
  layer_ = static_cast<int32_t>(il);
  const std::string blk = own(fmt::format("blk.{}.", il));
  const auto input = [&](const char* ln) { return spec.norms_results ? x : norm(x, blk + ln, spec.norm); };
  const auto finished = [&](ValueId part, const char* ln, const char* post_norm, const std::string& scale) {
    if (spec.norms_results) part = norm(part, blk + ln, spec.norm);
    if (has(blk + post_norm + ".weight")) part = norm(part, blk + post_norm, spec.norm);
    return has(blk + scale + ".weight") ? times(part, blk + scale + ".weight") : part;
  };
  x = add(x, finished(attention(input("ln1"), il, spec), "ln1", "attn_post_norm", "ls1"), blk + "attn_add");
  x = add(x, finished(ffn(input("ln2"), il, spec), "ln2", "ffn_post_norm", "ls2"), blk + "ffn_add");
  if (const std::string scale = blk + "out_scale.weight"; has(scale))
    x = activate(x, blk + "out_scale", {core::Activation::identity, values(scale, 1)[0]});
  layer_ = -1;
  return x;
}

ValueId Builder::layers(ValueId x, const LayerSpec& spec, int64_t count,
                        const std::function<ValueId(ValueId, int64_t)>& ended) {
  if (has(own("pre_ln.weight"))) x = norm(x, own("pre_ln"), spec.norm);
  for (int64_t il = 0; il < (count < 0 ? hparams_.layers() : count); ++il) {
    x = layer(x, il, spec);
    if (ended) x = ended(x, il);
  }
  return spec.ends_normed && has(own("post_ln.weight")) ? norm(x, own("post_ln"), spec.norm) : x;
}

} // namespace ridge::models::vision
