// Gemma's per-layer embeddings and scale of the residual stream.
#include "core/error.h"
#include "models/blocks/blocks.h"

#include <cmath>
#include <numeric>
#include <span>

namespace ridge::models::blocks {

using core::OpKind;
using core::ValueId;
using core::WeightId;

// The mean of a table's rows and a projection of x, both normed; the scales are folded into the weights.
ValueId layer_inputs(Builder& b, ValueId x, int64_t width) {
  const int64_t layers = b.hparams().layers(), all = width * layers;
  if (width < 1 || width > kMaxWidth / layers)
    throw_error("{}: per-layer embeddings of {} elements for each of {} layers", b.file().path(), width, layers);
  const double half = 1 / std::sqrt(2.0);
  const std::string table = "per_layer_token_embd";
  const ValueId by_token = b.emit(
      OpKind::embed, table, {}, all, {b.weight(table + ".weight", all, b.program().vocab)},
      core::EmbedParams{static_cast<float>(half * std::sqrt(static_cast<double>(width))), false, core::RowUse::none});
  const ValueId projected = b.group_norm(b.linear(x, "per_layer_model_proj", all), "per_layer_proj_norm", width);
  core::Op& norm = b.program().ops.back();
  b.scale_weight(norm.weights[0], half);
  // The reference first scales by 1 / sqrt(width), which only affects epsilon.
  std::get<core::NormParams>(norm.params).epsilon *= static_cast<float>(b.width_of(x));
  return b.add(projected, by_token, "per_layer_inputs");
}

ValueId gated_layer_input(Builder& b, ValueId x, ValueId inputs, int64_t il) {
  const std::string blk = fmt::format("blk.{}.", il);
  const int64_t width = b.width_of(inputs) / b.hparams().layers();
  ValueId own = columns(b, inputs, blk + "layer_input", il * width, width);
  if (b.gathered(x)) own = b.gather(own);
  const ValueId gated = glu(b, core::Activation::gelu, b.linear(x, blk + "inp_gate", width), own, blk + "inp_glu");
  return b.linear(gated, blk + "proj", b.width_of(x));
}

ValueId add_layer_input(Builder& b, ValueId x, ValueId inputs, int64_t il) {
  const std::string blk = fmt::format("blk.{}.", il);
  return b.add(x, b.rms_norm(gated_layer_input(b, x, inputs, il), blk + "post_norm"), blk + "layer_input_add");
}

ValueId columns(Builder& b, ValueId x, const std::string& name, int64_t first, int64_t count) {
  std::vector<int32_t> order(count);
  std::iota(order.begin(), order.end(), static_cast<int32_t>(first));
  return permute(b, x, name, order);
}

// Moves the last `count` elements of each head to its front.
ValueId last_first(Builder& b, ValueId x, const std::string& name, int64_t head_dim, int64_t count) {
  std::vector<int32_t> order(b.width_of(x));
  for (int64_t i = 0; i < b.width_of(x); ++i)
    order[i] = static_cast<int32_t>(i / head_dim * head_dim + (i % head_dim + head_dim - count) % head_dim);
  return permute(b, x, name, order);
}

ValueId permute(Builder& b, ValueId x, const std::string& name, std::span<const int32_t> order) {
  return b.emit(OpKind::permute, name, {x}, std::ssize(order), {b.integers(name, order)},
                core::PermuteParams{b.width_of(x)});
}

} // namespace ridge::models::blocks
