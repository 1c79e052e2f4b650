// RWKV 6: a layer mixes each token with the one before it, and then over time by a state that forgets each element of a
// key at a pace that follows from the token.
#include "core/error.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::Activation;
using core::OpKind;
using core::ValueId;
using core::WeightId;

namespace {

constexpr float kHeadNormEpsilon = 64e-5f;
constexpr ActivationSpec kTanh = {.activation = {Activation::soft_cap}};

} // namespace

// What the token before had more than this one, each element for itself; zeros come before the first.
ValueId Builder::before_minus_now(ValueId x, const std::string& name) {
  const int64_t width = width_of(x);
  std::vector<float> taps;
  for (int64_t i = 0; i < width; ++i) taps.insert(taps.end(), {1.0f, -1.0f});
  return emit(OpKind::conv1d, name, {x}, width, {constant(name, taps, width)},
              core::ConvParams{new_state(name, width), 2, Activation::identity});
}

// x plus a share of the difference, a number of the tensor for each element.
ValueId Builder::toward(ValueId x, ValueId difference, const std::string& tensor) {
  const ValueId part = emit(OpKind::activate, tensor, {difference}, width_of(x),
                            {flat_vector(tensor + ".weight", width_of(x))}, core::ActivationParams{});
  return add(x, part, tensor + "_add");
}

// One of the five shares in one tensor, or a tensor of its own.
WeightId Builder::time_mix_share(const std::string& blk, std::string_view which, int64_t place) {
  const std::string own = fmt::format("{}time_mix_lerp_{}.weight", blk, which),
                    fused = blk + "time_mix_lerp_fused.weight";
  const gguf::Tensor* all = file_.find_tensor(fused);
  const int64_t width = hparams_.width();
  if (!all) return flat_vector(own, width);
  skip(own);
  skip(fused);
  if (all->weights() != 5 * width || all->type != quant::Type::F32)
    throw_error("{}: tensor {} has {} numbers, expected {} in F32", file_.path(), fused, all->weights(), 5 * width);
  core::Weight share = {fused, core::kFloatType, width, 1, 1, width * static_cast<int64_t>(sizeof(float)), nullptr};
  share.data = all->data.data() + place * share.row_bytes;
  share.part = which;
  return add_weight(std::move(share));
}

ValueId Builder::time_mix(ValueId x, int64_t il) {
  const std::string blk = layer_name(il);
  const Hparams& h = hparams_;
  const int64_t width = h.width(), dim = h.positive_int("wkv.head_size", core::kMostWkvDim), heads = width / dim,
                extra = h.positive_int("time_mix_extra_dim", kMaxWidth);
  if (width % dim != 0) throw_error("{}: {} elements do not divide into heads of {}", file_.path(), width, dim);
  const ValueId difference = before_minus_now(x, blk + "time_mix_shift");
  const ValueId mixed = linear(toward(x, difference, blk + "time_mix_lerp_x"), blk + "time_mix_w1", 5 * extra);
  const ValueId inner = activate(mixed, blk + "time_mix_tanh", kTanh);
  int64_t place = 0;
  // x plus a share of the difference that follows from the token.
  const auto input = [&](std::string_view which) {
    core::Weight matrix = tensor_weight(blk + "time_mix_w2.weight", extra, width, 5);
    matrix.data += place * matrix.matrix_bytes();
    matrix.count = 1;
    matrix.part = which;
    const std::string name = fmt::format("{}time_mix_{}", blk, which);
    const ValueId part = columns(inner, name + "_inner", place * extra, extra);
    const WeightId share = time_mix_share(blk, which, place++);
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

ValueId Builder::channel_mix(ValueId x, int64_t il) {
  const std::string blk = layer_name(il);
  const int64_t width = hparams_.width();
  const ValueId difference = before_minus_now(x, blk + "channel_mix_shift");
  const ValueId k =
      linear(toward(x, difference, blk + "channel_mix_lerp_k"), blk + "channel_mix_key", hparams_.ffn_width(il));
  const ValueId r = linear(toward(x, difference, blk + "channel_mix_lerp_r"), blk + "channel_mix_receptance", width);
  const ValueId hidden = activate(k, blk + "channel_mix_relu", {{Activation::relu_squared}});
  return glu(Activation::sigmoid, r, linear(hidden, blk + "channel_mix_value", width), blk + "channel_mix_gated");
}

} // namespace ridge::models
