// Gemma 3n: AltUp (a residual stream of several parts, concatenated), Laurel (a low-rank bypass of attention) and
// sparse feed-forward gates. A layer predicts all parts, computes the first, and corrects each by the difference
// between the computed and the predicted first part.
#include "core/error.h"
#include "models/blocks/blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

namespace ridge::models {

using core::OpKind;
using core::ValueId;
using core::WeightId;

namespace {

constexpr float kNoEpsilon = 1e-20f; // for norms that keep only the direction

core::ActivationParams tanh_params() { return {core::Activation::soft_cap}; }

} // namespace

// factor * rms(x), `count` times. rms(x) is x · x / rms(x), a product with a constant matrix.
ValueId Builder::magnitude(ValueId x, const std::string& name, double factor, int64_t count) {
  const int64_t width = width_of(x);
  const ValueId direction = bare_norm(x, name + " direction", width, {constant(name + " ones", width, 1)});
  const ValueId squares = glu(core::Activation::identity, x, direction, name + " squares");
  return emit(OpKind::linear, name, {squares}, count,
              {constant(name + " mean", width, static_cast<float>(factor / static_cast<double>(width)), count)});
}

ValueId Builder::bare_norm(ValueId x, const std::string& name, int64_t group, std::vector<WeightId> weights) {
  return emit(OpKind::rms_norm, name, {x}, width_of(x), std::move(weights), core::NormParams{kNoEpsilon, group});
}

// Multiplies part i of x, or all of x, by matrix i of a tensor.
ValueId Builder::altup_matrices(ValueId x, const std::string& tensor, int64_t count) {
  const int64_t width = hparams_.width();
  const ValueId ids = value(tensor + " ids", count, gathered(x), core::ValueKind::i32);
  program_.ops.push_back({OpKind::head_ids, layer_, tensor + " ids", {}, {ids}, {}, {}});
  return emit(OpKind::expert_linear, tensor, {x, ids}, count * width, {weight(tensor + ".weight", width, width, count)},
              core::ExpertParams{count});
}

WeightId Builder::zeros_then_repeated(const std::string& name, std::span<const float> vector, int64_t parts) {
  std::vector<float> values(vector.size());
  for (int64_t i = 1; i < parts; ++i) values.insert(values.end(), vector.begin(), vector.end());
  return constant(name, values);
}

ValueId Builder::repeated(ValueId x, const std::string& name, int64_t parts) {
  std::vector<int32_t> order;
  for (int64_t i = 0; i < parts * width_of(x); ++i) order.push_back(static_cast<int32_t>(i % width_of(x)));
  return permute(x, name, order);
}

ValueId Builder::altup_stream(ValueId x, int64_t parts) {
  const int64_t width = width_of(x);
  const std::string name = "altup_proj";
  std::vector<int32_t> order;
  for (int64_t i = 0; i < parts * width; ++i) order.push_back(static_cast<int32_t>(i < width ? i : i - width));
  const std::vector<float> ones(width, 1.0f);
  std::vector<float> first(parts * width, 0.0f);
  std::ranges::fill_n(first.begin(), width, 1.0f);
  const ValueId others = bare_norm(permute(altup_matrices(x, name, parts - 1), name + " parts", order), name + " norm",
                                   width, {zeros_then_repeated(name + " others", ones, parts)});
  const ValueId scaled =
      glu(core::Activation::identity, magnitude(x, name + " magnitude", 1, 1), others, name + " scale");
  const ValueId own = emit(OpKind::activate, name + " embedding", {repeated(x, name + " repeat", parts)}, parts * width,
                           {constant(name + " first", first)}, core::ActivationParams{});
  return add(own, scaled, name + " add");
}

ValueId Builder::altup_router(ValueId x, const std::string& blk, std::string_view which, int64_t parts) {
  const int64_t width = width_of(x);
  core::Weight norm = tensor_weight(blk + "altup_router_norm.weight", width, 1, 1);
  require_f32(norm);
  norm.part = "by width";
  const WeightId scaled = add_weight(std::move(norm));
  scale_weight(scaled, 1 / static_cast<double>(width));
  const std::string name = fmt::format("{}altup_{}", blk, which);
  const ValueId normed =
      emit(OpKind::rms_norm, name + " norm", {x}, width, {scaled}, core::NormParams{hparams_.norm_epsilon(), width});
  const ValueId routed =
      emit(OpKind::linear, name + " router", {normed}, parts, {weight(blk + "altup_router.weight", width, parts)});
  return emit(OpKind::activate, name + " tanh", {routed}, parts, {}, tanh_params());
}

// Each part plus a combination of all parts, with coefficients from the first.
ValueId Builder::altup_predict(ValueId stream, int64_t il, int64_t parts) {
  const std::string blk = fmt::format("blk.{}.", il), name = blk + "altup_predict_coef";
  const int64_t width = width_of(stream) / parts;
  std::vector<float> itself(parts * parts, 0.0f);
  for (int64_t i = 0; i < parts; ++i) itself[i * parts + i] = 1;
  const ValueId router = altup_router(columns(stream, name + " first", 0, width), blk, "predict", parts);
  const ValueId shares = emit(OpKind::linear, name, {router}, parts * parts,
                              {weight(name + ".weight", parts, parts * parts), constant(name + " itself", itself)});
  return emit(OpKind::expert_sum, blk + "altup_predicted", {stream, shares}, width_of(stream), {},
              core::ExpertParams{parts});
}

// Each predicted part plus its coefficient times (computed - predicted first part).
ValueId Builder::altup_correct(ValueId predicted, ValueId computed, int64_t il, int64_t parts) {
  const std::string blk = fmt::format("blk.{}.", il), name = blk + "altup_correct_coef";
  const int64_t width = width_of(computed);
  const ValueId first = columns(predicted, name + " first", 0, width);
  const ValueId more = emit(OpKind::add, name + " more", {computed, first}, width, {}, core::AddParams{-1});
  const ValueId shares = emit(OpKind::linear, name, {altup_router(computed, blk, "correct", parts)}, parts,
                              {weight(name + ".weight", parts, parts), constant(name + " one", parts, 1)});
  return add(predicted,
             emit(OpKind::expert_sum, name + " parts", {more, shares}, parts * width, {}, core::ExpertParams{1}),
             blk + "altup_corrected");
}

ValueId Builder::altup_layer_input(ValueId stream, ValueId inputs, int64_t il, int64_t parts) {
  const std::string blk = fmt::format("blk.{}.", il);
  const int64_t width = width_of(stream) / parts;
  const ValueId first = columns(stream, blk + "altup_first", 0, width);
  const ValueId scaled = emit(OpKind::activate, blk + "altup_correct_scale", {first}, width,
                              {vector(blk + "altup_correct_scale.weight", width)}, core::ActivationParams{});
  const ValueId input = gated_layer_input(scaled, inputs, il);
  core::Weight norm = tensor_weight(blk + "post_norm.weight", width, 1, 1);
  require_f32(norm);
  std::vector<float> weights(width);
  std::memcpy(weights.data(), norm.data, width * sizeof(float));
  const ValueId others =
      emit(OpKind::rms_norm, blk + "post_norm", {repeated(input, blk + "layer_input_parts", parts)}, parts * width,
           {zeros_then_repeated(blk + "post_norm", weights, parts)}, core::NormParams{hparams_.norm_epsilon(), width});
  return add(stream, others, blk + "layer_input_add");
}

ValueId Builder::altup_mean(ValueId stream, int64_t parts) {
  const std::string name = "altup_unembd_proj";
  const int64_t width = width_of(stream) / parts;
  const double share = 1 / static_cast<double>(parts);
  const ValueId first = columns(stream, name + " first", 0, width);
  const ValueId others = altup_matrices(columns(stream, name + " others", width, (parts - 1) * width), name, parts - 1);
  const ValueId normed = bare_norm(others, name + " norm", width, {constant(name + " ones", width, 1)});
  const ValueId sum =
      emit(OpKind::expert_sum, name + " sum", {normed, magnitude(first, name + " magnitude", share, parts - 1)}, width,
           {}, core::ExpertParams{parts - 1});
  return emit(OpKind::add, name + " mean", {sum, first}, width, {}, core::AddParams{static_cast<float>(share)});
}

ValueId Builder::laurel(ValueId x, int64_t il) {
  const std::string blk = fmt::format("blk.{}.", il);
  const gguf::Tensor* left = file_.find_tensor(blk + "laurel_l.weight");
  const ValueId inner = linear(x, blk + "laurel_l", left ? left->dims[1] : 1);
  return add(rms_norm(linear(inner, blk + "laurel_r", width_of(x)), blk + "laurel_post_norm"), x, blk + "laurel_add");
}

// max(0, x - (mean + deviations * deviation)). The deviation is Σ (x - mean)² / deviation / (width - 1), whose first
// two factors are a layer norm.
ValueId Builder::above_threshold(ValueId x, const std::string& name, double deviations) {
  const auto width = static_cast<double>(width_of(x));
  const auto unit = static_cast<float>(std::sqrt((width - 1) / width));
  const auto normed = [&](const std::string& norm, float bias) {
    return emit(OpKind::layer_norm, norm, {x}, width_of(x),
                {constant(norm, width_of(x), unit), constant(norm + " bias", width_of(x), bias)},
                core::NormParams{kNoEpsilon, width_of(x)});
  };
  const ValueId squares = glu(core::Activation::identity, x, normed(name + " norm", 0), name + " squares");
  const ValueId deviation = emit(OpKind::linear, name + " deviation", {squares}, 1,
                                 {constant(name + " mean", width_of(x), static_cast<float>(1 / (width - 1)), 1)});
  const ValueId above =
      emit(OpKind::activate, name + " relu", {normed(name + " cutoff", static_cast<float>(-deviations))}, width_of(x),
           {}, core::ActivationParams{core::Activation::relu});
  return glu(core::Activation::identity, deviation, above, name);
}

ValueId Builder::sparse_ffn(ValueId x, int64_t il, double deviations) {
  const std::string blk = fmt::format("blk.{}.", il);
  const int64_t width = hparams_.ffn_width(il);
  const ValueId gate = above_threshold(linear(x, blk + "ffn_gate", width), blk + "ffn_highest", deviations);
  const ValueId up = linear(x, blk + "ffn_up", width);
  return linear(glu(core::Activation::gelu, gate, up, blk + "ffn_glu"), blk + "ffn_down", hparams_.width());
}

} // namespace ridge::models
