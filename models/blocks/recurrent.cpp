// Delta nets, Mamba 2 and short convolutions.
#include "core/error.h"
#include "models/blocks/blocks.h"

#include <cmath>

namespace ridge::models::blocks {

using core::Activation;
using core::OpKind;
using core::ValueId;
using core::WeightId;

int32_t new_state(Builder& b, const std::string& name, int64_t width) {
  b.program().states.push_back({name, width});
  return static_cast<int32_t>(b.program().states.size()) - 1;
}

static WeightId taps(Builder& b, const std::string& name, int64_t kernel, int64_t channels) {
  const gguf::Tensor* tensor = b.file().find_tensor(name);
  const bool matrices = tensor && channels > 1 && tensor->dims[1] == 1;
  core::Weight weight = b.tensor_weight(name, kernel, matrices ? 1 : channels, matrices ? channels : 1);
  b.require_f32(weight);
  weight.rows = channels;
  weight.count = 1;
  return b.add_weight(std::move(weight));
}

ValueId conv1d(Builder& b, ValueId x, const std::string& tensor, int64_t kernel, Activation activation) {
  const int64_t channels = b.width_of(x);
  if (kernel < 2 || kernel > 256)
    throw_error("{}: convolution over {} tokens, expected 2 to 256", b.file().path(), kernel);
  std::vector<WeightId> weights = {taps(b, tensor + ".weight", kernel, channels)};
  if (b.has(tensor + ".bias")) weights.push_back(b.vector(tensor + ".bias", channels));
  const int32_t state = new_state(b, tensor, (kernel - 1) * channels);
  return b.emit(OpKind::conv1d, tensor, {x}, channels, std::move(weights), core::ConvParams{state, kernel, activation});
}

// q, k and v concatenated, and the output gate. Older qwen3next files have one tensor, grouped by key head.
static std::pair<ValueId, ValueId> delta_net_inputs(Builder& b, ValueId x, const std::string& blk, int64_t k_heads,
                                                    int64_t v_heads, int64_t dim) {
  const int64_t qkv = (2 * k_heads + v_heads) * dim, z = v_heads * dim;
  const std::string together = blk + "ssm_in";
  if (b.has(blk + "attn_qkv.weight") || !b.has(together + ".weight")) {
    b.skip(together + ".weight");
    return {b.linear(x, blk + "attn_qkv", qkv), b.linear(x, blk + "attn_gate", z)};
  }

  const int64_t shared = v_heads / k_heads * dim, group = 2 * dim + 2 * shared;
  std::vector<int64_t> order;
  const auto take = [&](int64_t first, int64_t count) {
    for (int64_t h = 0; h < k_heads; ++h)
      for (int64_t i = 0; i < count; ++i) order.push_back(h * group + first + i);
  };
  take(0, dim);
  take(dim, dim);
  take(2 * dim, shared);
  const WeightId id = b.reordered(together + ".weight", b.width_of(x), qkv + z, "qkv", order);
  return {b.emit(OpKind::linear, together + " qkv", {x}, qkv, {id}),
          b.linear_of(x, together, {"z", qkv + z, 2 * dim + shared, z, shared, group})};
}

ValueId delta_net(Builder& b, ValueId x, int64_t il, bool neighbors_share, Activation gate) {
  const std::string blk = fmt::format("blk.{}.", il);
  const int64_t dim = b.hparams().ssm("state_size"), k_heads = b.hparams().ssm("group_count"),
                v_heads = b.hparams().ssm("time_step_rank"), inner = b.hparams().ssm("inner_size");
  if (dim > kMaxHeadDim || v_heads > kMaxHeads || v_heads % k_heads != 0 || inner != v_heads * dim)
    throw_error("{}: a delta net of {} key heads and {} value heads of {} with {} channels: the file is damaged or not "
                "a {} model",
                b.file().path(), k_heads, v_heads, dim, inner, b.program().architecture);
  const auto [qkv, z] = delta_net_inputs(b, x, blk, k_heads, v_heads, dim);
  ValueId alpha, beta;
  if (const std::string both = blk + "ssm_ba"; b.has(both + ".weight")) {
    const int64_t shared = v_heads / k_heads;
    beta = b.linear_of(x, both, {"beta", 2 * v_heads, 0, v_heads, shared, 2 * shared});
    alpha = b.linear_of(x, both, {"alpha", 2 * v_heads, shared, v_heads, shared, 2 * shared});
  } else {
    beta = b.linear(x, blk + "ssm_beta", v_heads);
    alpha = b.linear(x, blk + "ssm_alpha", v_heads);
  }
  const ValueId mixed = conv1d(b, qkv, blk + "ssm_conv1d", b.hparams().ssm("conv_kernel"), Activation::silu);
  const WeightId a = b.vector(blk + "ssm_a", v_heads), dt = b.vector(blk + "ssm_dt.bias", v_heads);
  const int32_t state = new_state(b, blk + "delta_rule", v_heads * dim * dim);
  ValueId y = b.emit(OpKind::delta_rule, blk + "delta_rule", {mixed, mixed, mixed, alpha, beta}, v_heads * dim, {a, dt},
                     core::DeltaParams{state, k_heads, v_heads, dim, b.hparams().norm_epsilon(), neighbors_share, 0,
                                       k_heads * dim, 2 * k_heads * dim});
  y = glu(b, gate, z, b.group_norm(y, blk + "ssm_norm", dim), blk + "ssm_gate");
  return b.linear(y, blk + "ssm_out", b.hparams().width());
}

// Kimi Delta Attention: a delta net with a decay per key element and the first layer's head count. One matrix or two
// low-rank ones make the decay and the output gate.
ValueId kimi_delta(Builder& b, ValueId x, int64_t il, float epsilon, bool minus) {
  const std::string blk = fmt::format("blk.{}.", il);
  const Hparams& h = b.hparams();
  const int64_t heads = h.heads(0), dim = h.positive_int("kda.head_dim", kMaxHeadDim), inner = heads * dim;
  const double least = h.get_float("kda.gate_lower_bound", -INFINITY);
  if (!(least < 0))
    throw_error("{}: {} is {}, expected a number below 0", b.file().path(), h.key("kda.gate_lower_bound"), least);
  const std::string together = blk + "attn_qkv";
  const auto projected = [&](std::string_view which, int64_t place) {
    const std::string tensor = fmt::format("{}attn_{}", blk, which);
    for (const std::string& name : {together, tensor}) b.skip(name + ".bias"); // never trained
    const WeightId id = b.has(together + ".weight")
                            ? b.slice(together + ".weight", b.width_of(x), {which, 3 * inner, place * inner, inner})
                            : b.weight(tensor + ".weight", b.width_of(x), inner);
    const ValueId y = b.emit(OpKind::linear, tensor, {b.in_order_of(id, x)}, inner, {id});
    return conv1d(b, y, fmt::format("{}ssm_conv1d_{}", blk, which), h.ssm("conv_kernel"), Activation::silu);
  };
  const ValueId q = projected("q", 0), k = projected("k", 1), v = projected("v", 2);
  const auto of_input = [&](const std::string& tensor) {
    if (b.has(tensor + ".weight")) return b.linear(x, tensor, inner);
    if (!b.has(tensor + "_b.weight")) return b.linear(x, tensor + "_a", inner);
    return b.linear(b.linear(x, tensor + "_a", dim), tensor + "_b", inner);
  };
  const ValueId alpha = of_input(blk + "ssm_f");
  const ValueId beta = b.linear(x, blk + "ssm_beta", heads);
  const WeightId a = b.flat_vector(blk + "ssm_a", heads), dt = b.flat_vector(blk + "ssm_dt.bias", inner);
  if (minus) b.scale_weight(a, -1);
  const int32_t state = new_state(b, blk + "delta_rule", heads * dim * dim);
  core::DeltaParams params = {state, heads, heads, dim, epsilon, false};
  if (std::isfinite(least)) params.least = static_cast<float>(least);
  ValueId y = b.emit(OpKind::delta_rule, blk + "delta_rule", {q, k, v, alpha, beta}, inner, {a, dt}, params);
  const ValueId gate = of_input(blk + "ssm_g");
  y = glu(b, Activation::sigmoid, gate, b.group_norm(y, blk + "ssm_norm", dim), blk + "ssm_gate");
  return b.linear(y, blk + "attn_output", h.width());
}

ValueId mamba2(Builder& b, ValueId x, int64_t il) {
  const std::string blk = fmt::format("blk.{}.", il);
  const int64_t inner = b.hparams().ssm("inner_size"), heads = b.hparams().ssm("time_step_rank"),
                groups = b.hparams().ssm("group_count"), states = b.hparams().ssm("state_size");
  if (heads > kMaxHeads || inner % heads != 0 || heads % groups != 0 || states > kMaxHeadDim)
    throw_error("{}: a scan of {} channels in {} heads and {} groups with {} states: the file is damaged or not a {} "
                "model",
                b.file().path(), inner, heads, groups, states, b.program().architecture);
  const int64_t shared = groups * states, mixed = inner + 2 * shared, all = inner + mixed + heads;
  const std::string in = blk + "ssm_in";
  const ValueId z = b.linear_of(x, in, {"z", all, 0, inner});
  ValueId xbc = b.linear_of(x, in, {"xbc", all, inner, mixed});
  const ValueId dt = b.linear_of(x, in, {"dt", all, inner + mixed, heads});
  xbc = conv1d(b, xbc, blk + "ssm_conv1d", b.hparams().ssm("conv_kernel"), Activation::silu);
  const WeightId a = b.flat_vector(blk + "ssm_a", heads), d = b.flat_vector(blk + "ssm_d", heads),
                 bias = b.vector(blk + "ssm_dt.bias", heads);
  const int32_t state = new_state(b, blk + "scan", inner * states);
  ValueId y = b.emit(OpKind::scan, blk + "scan", {xbc, xbc, xbc, dt}, inner, {a, d, bias},
                     core::ScanParams{state, heads, inner / heads, groups, states, 0, inner, inner + shared});
  y = glu(b, Activation::silu, z, y, blk + "ssm_gate");
  if (b.has(blk + "ssm_norm.weight")) y = b.group_norm(y, blk + "ssm_norm", inner / groups);
  return b.linear(y, blk + "ssm_out", b.hparams().width());
}

ValueId short_conv(Builder& builder, ValueId x, int64_t il) {
  const std::string blk = fmt::format("blk.{}.", il), in = blk + "shortconv.in_proj";
  const int64_t width = builder.hparams().width();
  const ValueId before = builder.linear_of(x, in, {"b", 3 * width, 0, width});
  const ValueId behind = builder.linear_of(x, in, {"c", 3 * width, width, width});
  ValueId y = builder.linear_of(x, in, {"x", 3 * width, 2 * width, width});
  y = glu(builder, Activation::identity, before, y, blk + "shortconv.before");
  y = conv1d(builder, y, blk + "shortconv.conv", builder.hparams().get_int("shortconv.l_cache"), Activation::identity);
  y = glu(builder, Activation::identity, behind, y, blk + "shortconv.behind");
  return builder.linear(y, blk + "shortconv.out_proj", width);
}

} // namespace ridge::models::blocks
