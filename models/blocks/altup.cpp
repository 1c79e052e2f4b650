// Gemma 3n: AltUp (a residual stream of several parts, concatenated), Laurel (a low-rank bypass of attention) and
// sparse feed-forward gates. A layer predicts all parts, computes the first, and corrects each by the difference
// between the computed and the predicted first part.
#include "core/error.h"
#include "models/blocks/blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

namespace ridge::models::blocks {

using core::OpKind;
using core::ValueId;
using core::WeightId;

static ValueId bare_norm(Builder& b, ValueId x, const std::string& name, int64_t group, std::vector<WeightId> weights);

namespace {

constexpr float kNoEpsilon = 1e-20f; // for norms that keep only the direction

core::ActivationParams tanh_params() { return {core::Activation::soft_cap}; }

} // namespace

// factor * rms(x), `count` times. rms(x) is x · x / rms(x), a product with a constant matrix.
static ValueId magnitude(Builder& b, ValueId x, const std::string& name, double factor, int64_t count) {
  const int64_t width = b.width_of(x);
  const ValueId direction = bare_norm(b, x, name + " direction", width, {b.constant(name + " ones", width, 1)});
  const ValueId squares = glu(b, core::Activation::identity, x, direction, name + " squares");
  return b.emit(OpKind::linear, name, {squares}, count,
                {b.constant(name + " mean", width, static_cast<float>(factor / static_cast<double>(width)), count)});
}

static ValueId bare_norm(Builder& b, ValueId x, const std::string& name, int64_t group, std::vector<WeightId> weights) {
  return b.emit(OpKind::rms_norm, name, {x}, b.width_of(x), std::move(weights), core::NormParams{kNoEpsilon, group});
}

// Multiplies part i of x, or all of x, by matrix i of a tensor.
static ValueId altup_matrices(Builder& b, ValueId x, const std::string& tensor, int64_t count) {
  const int64_t width = b.hparams().width();
  const ValueId ids = b.value(tensor + " ids", count, b.gathered(x), core::ValueKind::i32);
  b.program().ops.push_back({OpKind::head_ids, b.layer_index(), tensor + " ids", {}, {ids}, {}, {}});
  return b.emit(OpKind::expert_linear, tensor, {x, ids}, count * width,
                {b.weight(tensor + ".weight", width, width, count)}, core::ExpertParams{count});
}

static WeightId zeros_then_repeated(Builder& b, const std::string& name, std::span<const float> vector, int64_t parts) {
  std::vector<float> values(vector.size());
  for (int64_t i = 1; i < parts; ++i) values.insert(values.end(), vector.begin(), vector.end());
  return b.constant(name, values);
}

ValueId repeated(Builder& b, ValueId x, const std::string& name, int64_t parts) {
  std::vector<int32_t> order;
  for (int64_t i = 0; i < parts * b.width_of(x); ++i) order.push_back(static_cast<int32_t>(i % b.width_of(x)));
  return permute(b, x, name, order);
}

ValueId altup_stream(Builder& b, ValueId x, int64_t parts) {
  const int64_t width = b.width_of(x);
  const std::string name = "altup_proj";
  std::vector<int32_t> order;
  for (int64_t i = 0; i < parts * width; ++i) order.push_back(static_cast<int32_t>(i < width ? i : i - width));
  const std::vector<float> ones(width, 1.0f);
  std::vector<float> first(parts * width, 0.0f);
  std::ranges::fill_n(first.begin(), width, 1.0f);
  const ValueId others = bare_norm(b, permute(b, altup_matrices(b, x, name, parts - 1), name + " parts", order),
                                   name + " norm", width, {zeros_then_repeated(b, name + " others", ones, parts)});
  const ValueId scaled =
      glu(b, core::Activation::identity, magnitude(b, x, name + " magnitude", 1, 1), others, name + " scale");
  const ValueId own = b.emit(OpKind::activate, name + " embedding", {repeated(b, x, name + " repeat", parts)},
                             parts * width, {b.constant(name + " first", first)}, core::ActivationParams{});
  return b.add(own, scaled, name + " add");
}

static ValueId altup_router(Builder& b, ValueId x, const std::string& blk, std::string_view which, int64_t parts) {
  const int64_t width = b.width_of(x);
  core::Weight norm = b.tensor_weight(blk + "altup_router_norm.weight", width, 1, 1);
  b.require_f32(norm);
  norm.part = "by width";
  const WeightId scaled = b.add_weight(std::move(norm));
  b.scale_weight(scaled, 1 / static_cast<double>(width));
  const std::string name = fmt::format("{}altup_{}", blk, which);
  const ValueId normed = b.emit(OpKind::rms_norm, name + " norm", {x}, width, {scaled},
                                core::NormParams{b.hparams().norm_epsilon(), width});
  const ValueId routed =
      b.emit(OpKind::linear, name + " router", {normed}, parts, {b.weight(blk + "altup_router.weight", width, parts)});
  return b.emit(OpKind::activate, name + " tanh", {routed}, parts, {}, tanh_params());
}

// Each part plus a combination of all parts, with coefficients from the first.
ValueId altup_predict(Builder& b, ValueId stream, int64_t il, int64_t parts) {
  const std::string blk = fmt::format("blk.{}.", il), name = blk + "altup_predict_coef";
  const int64_t width = b.width_of(stream) / parts;
  std::vector<float> itself(parts * parts, 0.0f);
  for (int64_t i = 0; i < parts; ++i) itself[i * parts + i] = 1;
  const ValueId router = altup_router(b, columns(b, stream, name + " first", 0, width), blk, "predict", parts);
  const ValueId shares =
      b.emit(OpKind::linear, name, {router}, parts * parts,
             {b.weight(name + ".weight", parts, parts * parts), b.constant(name + " itself", itself)});
  return b.emit(OpKind::expert_sum, blk + "altup_predicted", {stream, shares}, b.width_of(stream), {},
                core::ExpertParams{parts});
}

// Each predicted part plus its coefficient times (computed - predicted first part).
ValueId altup_correct(Builder& b, ValueId predicted, ValueId computed, int64_t il, int64_t parts) {
  const std::string blk = fmt::format("blk.{}.", il), name = blk + "altup_correct_coef";
  const int64_t width = b.width_of(computed);
  const ValueId first = columns(b, predicted, name + " first", 0, width);
  const ValueId more = b.emit(OpKind::add, name + " more", {computed, first}, width, {}, core::AddParams{-1});
  const ValueId shares = b.emit(OpKind::linear, name, {altup_router(b, computed, blk, "correct", parts)}, parts,
                                {b.weight(name + ".weight", parts, parts), b.constant(name + " one", parts, 1)});
  return b.add(predicted,
               b.emit(OpKind::expert_sum, name + " parts", {more, shares}, parts * width, {}, core::ExpertParams{1}),
               blk + "altup_corrected");
}

ValueId altup_layer_input(Builder& b, ValueId stream, ValueId inputs, int64_t il, int64_t parts) {
  const std::string blk = fmt::format("blk.{}.", il);
  const int64_t width = b.width_of(stream) / parts;
  const ValueId first = columns(b, stream, blk + "altup_first", 0, width);
  const ValueId scaled = b.emit(OpKind::activate, blk + "altup_correct_scale", {first}, width,
                                {b.vector(blk + "altup_correct_scale.weight", width)}, core::ActivationParams{});
  const ValueId input = gated_layer_input(b, scaled, inputs, il);
  core::Weight norm = b.tensor_weight(blk + "post_norm.weight", width, 1, 1);
  b.require_f32(norm);
  std::vector<float> weights(width);
  std::memcpy(weights.data(), norm.data, width * sizeof(float));
  const ValueId others = b.emit(
      OpKind::rms_norm, blk + "post_norm", {repeated(b, input, blk + "layer_input_parts", parts)}, parts * width,
      {zeros_then_repeated(b, blk + "post_norm", weights, parts)}, core::NormParams{b.hparams().norm_epsilon(), width});
  return b.add(stream, others, blk + "layer_input_add");
}

ValueId altup_mean(Builder& b, ValueId stream, int64_t parts) {
  const std::string name = "altup_unembd_proj";
  const int64_t width = b.width_of(stream) / parts;
  const double share = 1 / static_cast<double>(parts);
  const ValueId first = columns(b, stream, name + " first", 0, width);
  const ValueId others =
      altup_matrices(b, columns(b, stream, name + " others", width, (parts - 1) * width), name, parts - 1);
  const ValueId normed = bare_norm(b, others, name + " norm", width, {b.constant(name + " ones", width, 1)});
  const ValueId sum =
      b.emit(OpKind::expert_sum, name + " sum", {normed, magnitude(b, first, name + " magnitude", share, parts - 1)},
             width, {}, core::ExpertParams{parts - 1});
  return b.emit(OpKind::add, name + " mean", {sum, first}, width, {}, core::AddParams{static_cast<float>(share)});
}

ValueId laurel(Builder& b, ValueId x, int64_t il) {
  const std::string blk = fmt::format("blk.{}.", il);
  const gguf::Tensor* left = b.file().find_tensor(blk + "laurel_l.weight");
  const ValueId inner = b.linear(x, blk + "laurel_l", left ? left->dims[1] : 1);
  return b.add(b.rms_norm(b.linear(inner, blk + "laurel_r", b.width_of(x)), blk + "laurel_post_norm"), x,
               blk + "laurel_add");
}

// max(0, x - (mean + deviations * deviation)). The deviation is Σ (x - mean)² / deviation / (width - 1), whose first
// two factors are a layer norm.
static ValueId above_threshold(Builder& b, ValueId x, const std::string& name, double deviations) {
  const auto width = static_cast<double>(b.width_of(x));
  const auto unit = static_cast<float>(std::sqrt((width - 1) / width));
  const auto normed = [&](const std::string& norm, float bias) {
    return b.emit(OpKind::layer_norm, norm, {x}, b.width_of(x),
                  {b.constant(norm, b.width_of(x), unit), b.constant(norm + " bias", b.width_of(x), bias)},
                  core::NormParams{kNoEpsilon, b.width_of(x)});
  };
  const ValueId squares = glu(b, core::Activation::identity, x, normed(name + " norm", 0), name + " squares");
  const ValueId deviation = b.emit(OpKind::linear, name + " deviation", {squares}, 1,
                                   {b.constant(name + " mean", b.width_of(x), static_cast<float>(1 / (width - 1)), 1)});
  const ValueId above =
      b.emit(OpKind::activate, name + " relu", {normed(name + " cutoff", static_cast<float>(-deviations))},
             b.width_of(x), {}, core::ActivationParams{core::Activation::relu});
  return glu(b, core::Activation::identity, deviation, above, name);
}

ValueId sparse_ffn(Builder& b, ValueId x, int64_t il, double deviations) {
  const std::string blk = fmt::format("blk.{}.", il);
  const int64_t width = b.hparams().ffn_width(il);
  const ValueId gate = above_threshold(b, b.linear(x, blk + "ffn_gate", width), blk + "ffn_highest", deviations);
  const ValueId up = b.linear(x, blk + "ffn_up", width);
  return b.linear(glu(b, core::Activation::gelu, gate, up, blk + "ffn_glu"), blk + "ffn_down", b.hparams().width());
}

} // namespace ridge::models::blocks
