// Hyper-connections: parallel residual streams with token-dependent gates.
#include "core/error.h"
#include "models/blocks/blocks.h"

#include <cstring>

namespace ridge::models {

using core::Activation;
using core::OpKind;
using core::ValueId;

int64_t Builder::hyper_count() const { return hparams_.positive_int("hyper_connection.count", core::kMaxHyperStreams); }

// `mixes`: with a matrix that mixes streams.
std::pair<ValueId, ValueId> Builder::hyper_gates(ValueId x, const std::string& tensor, bool mixes) {
  const int64_t count = hyper_count(), parts = mixes ? 2 + count : 2, outs = (parts - 1) * count;
  core::HyperParams params = {count, 0, hyper_epsilon()};
  if (mixes) {
    params.iterations = hparams_.positive_int("hyper_connection.sinkhorn_iterations", 1000);
  } else {
    params.magnitude = static_cast<float>(hparams_.get_float("hyper_connection.magnitude", 2));
    params.out_epsilon = params.epsilon;
  }
  const ValueId mixed = linear(unit_norm(x, tensor + "_norm", width_of(x)), tensor + "_fn", parts * count);
  const ValueId in = value(tensor + "_in", count, gathered(x)), out = value(tensor + "_out", outs, gathered(x));
  program_.ops.push_back(
      {OpKind::hyper_gates,
       layer_,
       tensor + "_gates",
       {mixed},
       {in, out},
       {vector(tensor + "_scale.weight", mixes ? 3 : 2), vector(tensor + "_base.weight", parts * count)},
       params});
  return {emit(OpKind::expert_sum, tensor + "_sum", {x, in}, width_of(x) / count, {}, core::ExpertParams{count}), out};
}

float Builder::hyper_epsilon() const {
  const double epsilon = hparams_.get_float("hyper_connection.epsilon", 0);
  if (!(epsilon >= 0 && epsilon < 1))
    throw_error("{}: {} is {}, expected 0 to 1", file_.path(), hparams_.key("hyper_connection.epsilon"), epsilon);
  return static_cast<float>(epsilon);
}

// Sum of the streams weighted by sigmoid(scale * y + base) + epsilon. The scale is in the norm before y.
ValueId Builder::gated_sum(ValueId x, const std::string& tensor) {
  const int64_t count = hyper_count(), width = width_of(x) / count;
  const ValueId normed = unit_norm(x, tensor + "_norm", width_of(x));
  const core::Weight scale = tensor_weight(tensor + "_scale.weight", 1, 1, 1);
  require_f32(scale);
  float factor;
  std::memcpy(&factor, scale.data, sizeof factor);
  scale_weight(program_.ops.back().weights[0], factor);
  const ValueId mixed =
      emit(OpKind::linear, tensor + "_fn", {normed}, count,
           {weight(tensor + "_fn.weight", width_of(x), count), vector(tensor + "_base.weight", count)});
  const ValueId gates = activate(mixed, tensor + "_gates", {{Activation::sigmoid}});
  const ValueId sum = emit(OpKind::expert_sum, tensor + "_sum", {x, gates}, width, {}, core::ExpertParams{count});
  return add(sum, emit(OpKind::fold, tensor + "_rest", {x}, width, {}, core::FoldParams{hyper_epsilon()}),
             tensor + "_add");
}

// Mean of the streams with gates from a low-rank matrix.
ValueId Builder::gated_mean(ValueId normed, const std::string& tensor) {
  const int64_t count = hyper_count(), rank = hparams_.positive_int("hyper_connection.low_rank", kMaxWidth);
  const float share = 1 / static_cast<float>(count);
  const ValueId low = emit(OpKind::activate, tensor + "_silu", {linear(normed, tensor + "_down", rank)}, rank,
                           {constant(tensor + "_share", rank, share)}, core::ActivationParams{Activation::silu, share});
  const ValueId gate = linear(low, tensor + "_up", width_of(normed));
  return emit(OpKind::fold, tensor + "_mean", {glu(Activation::sigmoid, gate, normed, tensor + "_gate")},
              width_of(normed) / count, {}, core::FoldParams{share});
}

std::pair<ValueId, ValueId> Builder::hyper_input(HyperConnections kind, ValueId x, const std::string& tensor) {
  if (kind != HyperConnections::gated) return hyper_gates(x, tensor, kind != HyperConnections::independent);
  const int64_t count = hyper_count();
  const ValueId normed = group_norm(x, tensor + "_norm", width_of(x) / count);
  // Centered at 1: if the matrix gives 0, the output is added unchanged.
  const ValueId out = emit(OpKind::activate, tensor + "_out", {linear(normed, tensor + "_inject", count)}, count,
                           {constant(tensor + "_double", count, 2)},
                           core::ActivationParams{Activation::sigmoid, 1 / static_cast<float>(count)});
  return {gated_mean(normed, tensor), out};
}

ValueId Builder::hyper_begin(ValueId x) { return repeated(x, "hyper_begin", hyper_count()); }

ValueId Builder::hyper_end(HyperConnections kind, ValueId x) {
  const std::string tensor = "output_hc";
  layer_ = -1;
  if (kind == HyperConnections::independent || kind == HyperConnections::mixing_to_gates) return gated_sum(x, tensor);
  if (kind == HyperConnections::gated) return gated_mean(group_norm(x, tensor + "_norm", hparams_.width()), tensor);
  const auto share = static_cast<float>(hparams_.width()) / static_cast<float>(width_of(x));
  return emit(OpKind::fold, "hyper_end", {x}, hparams_.width(), {}, core::FoldParams{share});
}

} // namespace ridge::models
