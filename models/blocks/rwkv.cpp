// RWKV 6 and 7. Each token is mixed with the previous one, then over time by a state with token-dependent decay per key
// element. RWKV 7 also erases along a key direction.
#include "core/error.h"
#include "models/blocks/blocks.h"

#include <cmath>

namespace ridge::models::blocks {

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
static ValueId previous_minus_current(Builder& b, ValueId x, const std::string& name) {
  const int64_t width = b.width_of(x);
  std::vector<float> taps;
  for (int64_t i = 0; i < width; ++i) taps.insert(taps.end(), {1.0f, -1.0f});
  return b.emit(OpKind::conv1d, name, {x}, width, {b.constant(name, taps, width)},
                core::ConvParams{new_state(b, name, width), 2, Activation::identity});
}

// x plus the difference times the tensor, per element.
static ValueId lerp_with_previous(Builder& b, ValueId x, ValueId difference, const std::string& tensor) {
  const ValueId part = b.emit(OpKind::activate, tensor, {difference}, b.width_of(x),
                              {b.flat_vector(tensor + ".weight", b.width_of(x))}, core::ActivationParams{});
  return b.add(x, part, tensor + "_add");
}

static WeightId time_mix_share(Builder& b, const std::string& blk, std::string_view which, int64_t place,
                               int64_t count) {
  const std::string own = fmt::format("{}time_mix_lerp_{}.weight", blk, which),
                    fused = blk + "time_mix_lerp_fused.weight";
  const gguf::Tensor* all = b.file().find_tensor(fused);
  const int64_t width = b.hparams().width();
  if (!all) return b.flat_vector(own, width);
  b.skip(own);
  b.skip(fused);
  if (all->weights() != count * width || all->type != quant::Type::F32)
    throw_error("{}: tensor {} has {} values, expected {} in F32", b.file().path(), fused, all->weights(),
                count * width);
  core::Weight share = {fused, core::kFloatType, width, 1, 1, width * static_cast<int64_t>(sizeof(float)), nullptr};
  share.data = all->data.data() + place * share.row_bytes;
  share.part = which;
  return b.add_weight(std::move(share));
}

ValueId time_mix(Builder& b, ValueId x, int64_t il) {
  const std::string blk = b.layer_name(il);
  const Hparams& h = b.hparams();
  const int64_t width = h.width(), dim = h.positive_int("wkv.head_size", core::kMaxWkvDim), heads = width / dim,
                extra = h.positive_int("time_mix_extra_dim", kMaxWidth);
  if (width % dim != 0) throw_error("{}: {} elements cannot be divided into heads of {}", b.file().path(), width, dim);
  const ValueId difference = previous_minus_current(b, x, blk + "time_mix_shift");
  const ValueId mixed =
      b.linear(lerp_with_previous(b, x, difference, blk + "time_mix_lerp_x"), blk + "time_mix_w1", 5 * extra);
  const ValueId inner = activate(b, mixed, blk + "time_mix_tanh", kTanh);
  int64_t place = 0;
  const auto input = [&](std::string_view which) {
    core::Weight matrix = b.tensor_weight(blk + "time_mix_w2.weight", extra, width, 5);
    matrix.data += place * matrix.matrix_bytes();
    matrix.count = 1;
    matrix.part = which;
    const std::string name = fmt::format("{}time_mix_{}", blk, which);
    const ValueId part = columns(b, inner, name + "_inner", place * extra, extra);
    const WeightId share = time_mix_share(b, blk, which, place++, 5);
    const ValueId shares =
        b.emit(OpKind::linear, name + "_share", {part}, width, {b.add_weight(std::move(matrix)), share});
    return b.add(x, glu(b, Activation::identity, shares, difference, name + "_part"), name + "_input");
  };
  const ValueId w = input("w"), k = input("k"), v = input("v"), r = input("r"), g = input("g");
  const ValueId narrow = b.linear(w, blk + "time_mix_decay_w1", h.positive_int("time_decay_extra_dim", kMaxWidth));
  const ValueId decay =
      b.linear(activate(b, narrow, blk + "time_mix_decay_tanh", kTanh), blk + "time_mix_decay_w2", width);
  const WeightId bonus = b.flat_vector(blk + "time_mix_first.weight", width),
                 bias = b.flat_vector(blk + "time_mix_decay.weight", width);
  ValueId y = b.emit(OpKind::wkv, blk + "wkv",
                     {b.linear(r, blk + "time_mix_receptance", width), b.linear(k, blk + "time_mix_key", width),
                      b.linear(v, blk + "time_mix_value", width), decay},
                     width, {bonus, bias}, core::WkvParams{new_state(b, blk + "wkv", width * dim), heads, dim});
  y = b.group_norm(y, blk + "time_mix_ln", dim, NormKind::layer);
  std::get<core::NormParams>(b.program().ops.back().params).epsilon = kHeadNormEpsilon;
  y = glu(b, Activation::silu, b.linear(g, blk + "time_mix_gate", width), y, blk + "time_mix_gated");
  return b.linear(y, blk + "time_mix_output", width);
}

// W2 activation(W1 x), plus W0 if present.
static ValueId low_rank(Builder& b, ValueId x, const std::string& tensor, const ActivationSpec& activation) {
  const int64_t width = b.hparams().width(), rank = std::max<int64_t>(1, b.sides_of(tensor + "1.weight").second);
  const ValueId inner = activate(b, b.linear(x, tensor + "1", rank), tensor + "_activation", activation);
  if (!b.has(tensor + "0.weight")) return b.linear(inner, tensor + "2", width);
  const WeightId matrix = b.weight(tensor + "2.weight", rank, width);
  return b.emit(OpKind::linear, tensor + "2", {inner}, width, {matrix, b.flat_vector(tensor + "0.weight", width)});
}

static ValueId head_products(Builder& b, ValueId r, ValueId k, const std::string& tensor, int64_t dim) {
  const int64_t width = b.width_of(r), heads = width / dim;
  const std::string name = tensor + ".weight";
  const gguf::Tensor* flat = b.file().find_tensor(name);
  const bool by_head = flat && flat->dims[0] == dim;
  const core::Weight factors = b.tensor_weight(name, by_head ? dim : width, by_head ? heads : 1, 1);
  b.require_f32(factors);
  const auto* of_element = reinterpret_cast<const float*>(factors.data);
  std::vector<float> matrix(heads * width);
  for (int64_t i = 0; i < width; ++i) matrix[i / dim * width + i] = of_element[i];
  const ValueId products = glu(b, Activation::identity, r, k, tensor + "_products");
  return b.emit(OpKind::linear, tensor, {products}, heads, {b.constant(tensor + " by head", matrix, heads)});
}

std::pair<ValueId, ValueId> time_mix7(Builder& b, ValueId x, std::optional<ValueId> first_values, int64_t il) {
  const std::string blk = b.layer_name(il), mix = blk + "time_mix_";
  const int64_t width = b.hparams().width(), dim = b.hparams().positive_int("wkv.head_size", core::kMaxWkvDim);
  if (width % dim != 0) throw_error("{}: {} elements cannot be divided into heads of {}", b.file().path(), width, dim);
  const bool gated = b.has(mix + "g1.weight");
  const ValueId difference = previous_minus_current(b, x, mix + "shift");
  int64_t place = 0;
  const auto input = [&](std::string_view which) {
    const WeightId share = time_mix_share(b, blk, which, place++, gated ? 6 : 5);
    const std::string name = fmt::format("{}{}_share", mix, which);
    const ValueId part = b.emit(OpKind::activate, name, {difference}, width, {share}, core::ActivationParams{});
    return b.add(x, part, name + "_add");
  };
  const auto times = [&](ValueId value, const std::string& tensor) {
    return b.emit(OpKind::activate, tensor, {value}, width, {b.flat_vector(tensor + ".weight", width)},
                  core::ActivationParams{});
  };
  const ValueId r = b.linear(input("r"), mix + "receptance", width);
  const ValueId decay = low_rank(b, input("w"), mix + "w", kTanh);
  const ValueId plain_k = b.linear(input("k"), mix + "key", width), values_input = input("v");
  ValueId v = b.linear(values_input, mix + "value", width);
  const ValueId rate =
      activate(b, low_rank(b, input("a"), mix + "a", kIdentity), mix + "rate", {{Activation::sigmoid}});
  if (first_values) {
    const ValueId share = low_rank(b, values_input, mix + "v", kIdentity),
                  missing = b.add(*first_values, v, mix + "v_diff", -1);
    v = b.add(v, glu(b, Activation::sigmoid, share, missing, mix + "v_part"), mix + "v_add");
  } else {
    for (const char* unused : {"v0.weight", "v1.weight", "v2.weight"}) b.skip(mix + unused);
  }
  // A direction of length 1: an RMS norm divided by sqrt(dim).
  const ValueId direction =
      b.emit(OpKind::rms_norm, mix + "direction", {times(plain_k, mix + "k_k")}, width,
             {b.constant(mix + "unit", dim, 1 / std::sqrt(static_cast<float>(dim)))}, core::NormParams{1e-24f, dim});
  const ValueId damped = times(plain_k, mix + "k_a");
  const ValueId kept = b.add(plain_k, damped, mix + "k_kept", -1);
  const ValueId k = b.add(kept, glu(b, Activation::identity, rate, damped, mix + "k_part"), mix + "k_add");
  ValueId y = b.emit(OpKind::wkv7, blk + "wkv", {r, decay, k, v, direction, rate}, width, {},
                     core::WkvParams{new_state(b, blk + "wkv", width * dim), width / dim, dim});
  if (b.has(mix + "ln.weight")) {
    y = b.group_norm(y, mix + "ln", dim, NormKind::layer);
    std::get<core::NormParams>(b.program().ops.back().params).epsilon = kHeadNormEpsilon;
  }
  const ValueId bonus = head_products(b, r, k, mix + "r_k", dim);
  y = b.add(y, glu(b, Activation::identity, bonus, v, mix + "bonus"), mix + "bonus_add");
  if (gated)
    y = glu(b, Activation::identity, low_rank(b, input("g"), mix + "g", {{Activation::sigmoid}, false}), y,
            mix + "gated");
  return {b.linear(y, mix + "output", width), first_values.value_or(v)};
}

ValueId channel_mix(Builder& b, ValueId x, int64_t il, bool gated) {
  const std::string blk = b.layer_name(il);
  const int64_t width = b.hparams().width();
  const ValueId difference = previous_minus_current(b, x, blk + "channel_mix_shift");
  const ValueId k = b.linear(lerp_with_previous(b, x, difference, blk + "channel_mix_lerp_k"), blk + "channel_mix_key",
                             b.hparams().ffn_width(il));
  const ValueId hidden = activate(b, k, blk + "channel_mix_relu", {{Activation::relu_squared}});
  if (!gated) return b.linear(hidden, blk + "channel_mix_value", width);
  const ValueId r =
      b.linear(lerp_with_previous(b, x, difference, blk + "channel_mix_lerp_r"), blk + "channel_mix_receptance", width);
  return glu(b, Activation::sigmoid, r, b.linear(hidden, blk + "channel_mix_value", width), blk + "channel_mix_gated");
}

} // namespace ridge::models::blocks
