// Hyper-connections: a layer's residual stream is several side by side. Gates of the token say how much of each goes
// into a block, how much of what the block gives goes to each, and how they mix.
#include "core/error.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::OpKind;
using core::ValueId;
using core::WeightId;

std::pair<ValueId, ValueId> Builder::hyper_gates(ValueId x, const std::string& tensor) {
  const int64_t count = hparams_.positive_int("hyper_connection.count", core::kMostHyperStreams),
                rounds = hparams_.positive_int("hyper_connection.sinkhorn_iterations", 1000);
  const double epsilon = hparams_.get_float("hyper_connection.epsilon", 0);
  if (!(epsilon >= 0 && epsilon < 1))
    throw_error("{}: {} is {}, expected 0 to 1", file_.path(), hparams_.key("hyper_connection.epsilon"), epsilon);
  const int64_t mixes = (2 + count) * count;
  const ValueId mixed = linear(unit_norm(x, tensor + "_norm", width_of(x)), tensor + "_fn", mixes);
  const ValueId in = value(tensor + "_in", count, gathered(x)),
                out = value(tensor + "_out", mixes - count, gathered(x));
  program_.ops.push_back({OpKind::hyper_gates,
                          layer_,
                          tensor + "_gates",
                          {mixed},
                          {in, out},
                          {vector(tensor + "_scale.weight", 3), vector(tensor + "_base.weight", mixes)},
                          core::HyperParams{count, rounds, static_cast<float>(epsilon)}});
  return {emit(OpKind::expert_sum, tensor + "_sum", {x, in}, width_of(x) / count, {}, core::ExpertParams{count}), out};
}

ValueId Builder::hyper_begin(ValueId x) {
  const int64_t count = hparams_.positive_int("hyper_connection.count", core::kMostHyperStreams), width = width_of(x);
  std::vector<int32_t> order(count * width);
  for (int64_t i = 0; i < count * width; ++i) order[i] = static_cast<int32_t>(i % width);
  const auto bytes = std::as_bytes(std::span(order));
  auto owned = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  const WeightId copies = add_weight(
      {"hyper_begin.order", core::kOrderType, count * width, 1, 1, std::ssize(*owned), owned->data(), owned});
  return emit(OpKind::permute, "hyper_begin", {x}, count * width, {copies}, core::PermuteParams{width});
}

ValueId Builder::hyper_end(ValueId x) {
  const auto share = static_cast<float>(hparams_.width()) / static_cast<float>(width_of(x));
  return emit(OpKind::fold, "hyper_end", {x}, hparams_.width(), {}, core::FoldParams{share});
}

} // namespace ridge::models
