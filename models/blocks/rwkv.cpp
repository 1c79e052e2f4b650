// RWKV 6 and 7. Each token is mixed with the previous one, then over time by a state with token-dependent decay per key
// element. RWKV 7 also erases along a key direction.
#include "core/error.h"
#include "models/blocks/blocks.h"

#include <cmath>

namespace ridge::models {

using core::Activation;
using core::OpKind;
using core::ValueId;
using core::WeightId;

namespace {

constexpr float kHeadNormEpsilon = 64e-5f;
constexpr ActivationSpec kTanh = {.activation = {Activation::soft_cap}};
constexpr ActivationSpec kIdentity = {.activation = {Activation::identity}};

} // namespace

// The previous token minus this one; zeros before the first.
ValueId Builder::previous_minus_current(ValueId x, const std::string& name) {
  const int64_t width = width_of(x);
  std::vector<float> taps;
  for (int64_t i = 0; i < width; ++i) taps.insert(taps.end(), {1.0f, -1.0f});
  return emit(OpKind::conv1d, name, {x}, width, {constant(name, taps, width)},
              core::ConvParams{new_state(name, width), 2, Activation::identity});
}

// x plus the difference times the tensor, per element.
ValueId Builder::lerp_with_previous(ValueId x, ValueId difference, const std::string& tensor) {
  const ValueId part = emit(OpKind::activate, tensor, {difference}, width_of(x),
                            {flat_vector(tensor + ".weight", width_of(x))}, core::ActivationParams{});
  return add(x, part, tensor + "_add");
}

WeightId Builder::time_mix_share(const std::string& blk, std::string_view which, int64_t place, int64_t count) {
  const std::string own = fmt::format("{}time_mix_lerp_{}.weight", blk, which),
                    fused = blk + "time_mix_lerp_fused.weight";
  const gguf::Tensor* all = file_.find_tensor(fused);
  const int64_t width = hparams_.width();
  if (!all) return flat_vector(own, width);
  skip(own);
  skip(fused);
  if (all->weights() != count * width || all->type != quant::Type::F32)
    throw_error("{}: tensor {} has {} values, expected {} in F32", file_.path(), fused, all->weights(), count * width);
  core::Weight share = {fused, core::kFloatType, width, 1, 1, width * static_cast<int64_t>(sizeof(float)), nullptr};
  share.data = all->data.data() + place * share.row_bytes;
  share.part = which;
  return add_weight(std::move(share));
}

ValueId Builder::time_mix(ValueId x, int64_t il) {
  const std::string blk = layer_name(il);
  const Hparams& h = hparams_;
  const int64_t width = h.width(), dim = h.positive_int("wkv.head_size", core::kMaxWkvDim), heads = width / dim,
                extra = h.positive_int("time_mix_extra_dim", kMaxWidth);
  if (width % dim != 0) throw_error("{}: {} elements cannot be divided into heads of {}", file_.path(), width, dim);
  const ValueId difference = previous_minus_current(x, blk + "time_mix_shift");
  const ValueId mixed =
      linear(lerp_with_previous(x, difference, blk + "time_mix_lerp_x"), blk + "time_mix_w1", 5 * extra);
  const ValueId inner = activate(mixed, blk + "time_mix_tanh", kTanh);
  int64_t place = 0;
  const auto input = [&](std::string_view which) {
    core::Weight matrix = tensor_weight(blk + "time_mix_w2.weight", extra, width, 5);
    matrix.data += place * matrix.matrix_bytes();
    matrix.count = 1;
    matrix.part = which;
    const std::string name = fmt::format("{}time_mix_{}", blk, which);
    const ValueId part = columns(inner, name + "_inner", place * extra, extra);
    const WeightId share = time_mix_share(blk, which, place++, 5);
    const ValueId shares = emit(OpKind::linear, name + "_share", {part}, width, {add_weight(std::move(matrix)), share});
    return add(x, glu(Activation::identity, shares, difference, name + "_part"), name + "_input");
  };
  const ValueId w = input("w"), k = input("k"), v = input("v"), r = input("r"), g = input("g");
  const ValueId narrow = linear(w, blk + "time_mix_decay_w1", h.positive_int("time_decay_extra_dim", kMaxWidth));
  const ValueId decay = linear(activate(narrow, blk + "time_mix_decay_tanh", kTanh), blk + "time_mix_decay_w2", width);
  const WeightId bonus = flat_vector(blk + "time_mix_first.weight", width),
                 bias = flat_vector(blk + "time_mix_decay.weight", width);
  ValueId y = emit(OpKind::wkv, blk + "wkv",
                   {linear(r, blk + "time_mix_receptance", width), linear(k, blk + "time_mix_key", width),
                    linear(v, blk + "time_mix_value", width), decay},
                   width, {bonus, bias}, core::WkvParams{new_state(blk + "wkv", width * dim), heads, dim});
  y = group_norm(y, blk + "time_mix_ln", dim, NormKind::layer);
  std::get<core::NormParams>(program_.ops.back().params).epsilon = kHeadNormEpsilon;
  y = glu(Activation::silu, linear(g, blk + "time_mix_gate", width), y, blk + "time_mix_gated");
  return linear(y, blk + "time_mix_output", width);
}

// W2 activation(W1 x), plus W0 if present.
ValueId Builder::low_rank(ValueId x, const std::string& tensor, const ActivationSpec& activation) {
  const int64_t width = hparams_.width(), rank = std::max<int64_t>(1, sides_of(tensor + "1.weight").second);
  const ValueId inner = activate(linear(x, tensor + "1", rank), tensor + "_activation", activation);
  if (!has(tensor + "0.weight")) return linear(inner, tensor + "2", width);
  const WeightId matrix = weight(tensor + "2.weight", rank, width);
  return emit(OpKind::linear, tensor + "2", {inner}, width, {matrix, flat_vector(tensor + "0.weight", width)});
}

ValueId Builder::head_products(ValueId r, ValueId k, const std::string& tensor, int64_t dim) {
  const int64_t width = width_of(r), heads = width / dim;
  const std::string name = tensor + ".weight";
  const gguf::Tensor* flat = file_.find_tensor(name);
  const bool by_head = flat && flat->dims[0] == dim;
  const core::Weight factors = tensor_weight(name, by_head ? dim : width, by_head ? heads : 1, 1);
  require_f32(factors);
  const auto* of_element = reinterpret_cast<const float*>(factors.data);
  std::vector<float> matrix(heads * width);
  for (int64_t i = 0; i < width; ++i) matrix[i / dim * width + i] = of_element[i];
  const ValueId products = glu(Activation::identity, r, k, tensor + "_products");
  return emit(OpKind::linear, tensor, {products}, heads, {constant(tensor + " by head", matrix, heads)});
}

std::pair<ValueId, ValueId> Builder::time_mix7(ValueId x, std::optional<ValueId> first_values, int64_t il) {
  const std::string blk = layer_name(il), mix = blk + "time_mix_";
  const int64_t width = hparams_.width(), dim = hparams_.positive_int("wkv.head_size", core::kMaxWkvDim);
  if (width % dim != 0) throw_error("{}: {} elements cannot be divided into heads of {}", file_.path(), width, dim);
  const bool gated = has(mix + "g1.weight");
  const ValueId difference = previous_minus_current(x, mix + "shift");
  int64_t place = 0;
  const auto input = [&](std::string_view which) {
    const WeightId share = time_mix_share(blk, which, place++, gated ? 6 : 5);
    const std::string name = fmt::format("{}{}_share", mix, which);
    const ValueId part = emit(OpKind::activate, name, {difference}, width, {share}, core::ActivationParams{});
    return add(x, part, name + "_add");
  };
  const auto times = [&](ValueId value, const std::string& tensor) {
    return emit(OpKind::activate, tensor, {value}, width, {flat_vector(tensor + ".weight", width)},
                core::ActivationParams{});
  };
  const ValueId r = linear(input("r"), mix + "receptance", width);
  const ValueId decay = low_rank(input("w"), mix + "w", kTanh);
  const ValueId plain_k = linear(input("k"), mix + "key", width), values_input = input("v");
  ValueId v = linear(values_input, mix + "value", width);
  const ValueId rate = activate(low_rank(input("a"), mix + "a", kIdentity), mix + "rate", {{Activation::sigmoid}});
  if (first_values) {
    const ValueId share = low_rank(values_input, mix + "v", kIdentity),
                  missing = add(*first_values, v, mix + "v_diff", -1);
    v = add(v, glu(Activation::sigmoid, share, missing, mix + "v_part"), mix + "v_add");
  } else {
    for (const char* unused : {"v0.weight", "v1.weight", "v2.weight"}) skip(mix + unused);
  }
  // A direction of length 1: an RMS norm divided by sqrt(dim).
  const ValueId direction =
      emit(OpKind::rms_norm, mix + "direction", {times(plain_k, mix + "k_k")}, width,
           {constant(mix + "unit", dim, 1 / std::sqrt(static_cast<float>(dim)))}, core::NormParams{1e-24f, dim});
  const ValueId damped = times(plain_k, mix + "k_a");
  const ValueId kept = add(plain_k, damped, mix + "k_kept", -1);
  const ValueId k = add(kept, glu(Activation::identity, rate, damped, mix + "k_part"), mix + "k_add");
  ValueId y = emit(OpKind::wkv7, blk + "wkv", {r, decay, k, v, direction, rate}, width, {},
                   core::WkvParams{new_state(blk + "wkv", width * dim), width / dim, dim});
  if (has(mix + "ln.weight")) {
    y = group_norm(y, mix + "ln", dim, NormKind::layer);
    std::get<core::NormParams>(program_.ops.back().params).epsilon = kHeadNormEpsilon;
  }
  const ValueId bonus = head_products(r, k, mix + "r_k", dim);
  y = add(y, glu(Activation::identity, bonus, v, mix + "bonus"), mix + "bonus_add");
  if (gated)
    y = glu(Activation::identity, low_rank(input("g"), mix + "g", {{Activation::sigmoid}, false}), y, mix + "gated");
  return {linear(y, mix + "output", width), first_values.value_or(v)};
}

ValueId Builder::channel_mix(ValueId x, int64_t il, bool gated) {
  const std::string blk = layer_name(il);
  const int64_t width = hparams_.width();
  const ValueId difference = previous_minus_current(x, blk + "channel_mix_shift");
  const ValueId k = linear(lerp_with_previous(x, difference, blk + "channel_mix_lerp_k"), blk + "channel_mix_key",
                           hparams_.ffn_width(il));
  const ValueId hidden = activate(k, blk + "channel_mix_relu", {{Activation::relu_squared}});
  if (!gated) return linear(hidden, blk + "channel_mix_value", width);
  const ValueId r =
      linear(lerp_with_previous(x, difference, blk + "channel_mix_lerp_r"), blk + "channel_mix_receptance", width);
  return glu(Activation::sigmoid, r, linear(hidden, blk + "channel_mix_value", width), blk + "channel_mix_gated");
}

} // namespace ridge::models
