// Gemma's per-layer embeddings and scale of the residual stream.
#include "core/error.h"
#include "models/blocks/blocks.h"

#include <cmath>
#include <numeric>
#include <span>

namespace ridge::models {

using core::OpKind;
using core::ValueId;
using core::WeightId;

// The mean of a table's rows and a projection of x, both normed; the scales are folded into the weights.
ValueId Builder::layer_inputs(ValueId x, int64_t width) {
  const int64_t layers = hparams_.layers(), all = width * layers;
  if (width < 1 || width > kMaxWidth / layers)
    throw_error("{}: per-layer embeddings of {} elements for each of {} layers", file_.path(), width, layers);
  const double half = 1 / std::sqrt(2.0);
  const std::string table = "per_layer_token_embd";
  const ValueId by_token = emit(
      OpKind::embed, table, {}, all, {weight(table + ".weight", all, program_.vocab)},
      core::EmbedParams{static_cast<float>(half * std::sqrt(static_cast<double>(width))), false, core::RowUse::none});
  const ValueId projected = group_norm(linear(x, "per_layer_model_proj", all), "per_layer_proj_norm", width);
  core::Op& norm = program_.ops.back();
  scale_weight(norm.weights[0], half);
  // The reference first scales by 1 / sqrt(width), which only affects epsilon.
  std::get<core::NormParams>(norm.params).epsilon *= static_cast<float>(width_of(x));
  return add(projected, by_token, "per_layer_inputs");
}

ValueId Builder::gated_layer_input(ValueId x, ValueId inputs, int64_t il) {
  const std::string blk = fmt::format("blk.{}.", il);
  const int64_t width = width_of(inputs) / hparams_.layers();
  ValueId own = columns(inputs, blk + "layer_input", il * width, width);
  if (gathered(x)) own = gather(own);
  const ValueId gated = glu(core::Activation::gelu, linear(x, blk + "inp_gate", width), own, blk + "inp_glu");
  return linear(gated, blk + "proj", width_of(x));
}

ValueId Builder::add_layer_input(ValueId x, ValueId inputs, int64_t il) {
  const std::string blk = fmt::format("blk.{}.", il);
  return add(x, rms_norm(gated_layer_input(x, inputs, il), blk + "post_norm"), blk + "layer_input_add");
}

ValueId Builder::columns(ValueId x, const std::string& name, int64_t first, int64_t count) {
  std::vector<int32_t> order(count);
  std::iota(order.begin(), order.end(), static_cast<int32_t>(first));
  return permute(x, name, order);
}

// Moves the last `count` elements of each head to its front.
ValueId Builder::last_first(ValueId x, const std::string& name, int64_t head_dim, int64_t count) {
  std::vector<int32_t> order(width_of(x));
  for (int64_t i = 0; i < width_of(x); ++i)
    order[i] = static_cast<int32_t>(i / head_dim * head_dim + (i % head_dim + head_dim - count) % head_dim);
  return permute(x, name, order);
}

ValueId Builder::permute(ValueId x, const std::string& name, std::span<const int32_t> order) {
  return emit(OpKind::permute, name, {x}, std::ssize(order), {integers(name, order)}, core::PermuteParams{width_of(x)});
}

} // namespace ridge::models
