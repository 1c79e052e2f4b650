// Hyper-connections: parallel residual streams with token-dependent gates.
#include "core/error.h"
#include "models/blocks/blocks.h"

#include <cstring>

namespace ridge::models::blocks {

using core::Activation;
using core::OpKind;
using core::ValueId;

static float hyper_epsilon(const Builder& b);

static int64_t hyper_count(const Builder& b) {
  return b.hparams().positive_int("hyper_connection.count", core::kMaxHyperStreams);
}

// `mixes`: with a matrix that mixes streams.
static std::pair<ValueId, ValueId> hyper_gates(Builder& b, ValueId x, const std::string& tensor, bool mixes) {
  const int64_t count = hyper_count(b), parts = mixes ? 2 + count : 2, outs = (parts - 1) * count;
  core::HyperParams params = {count, 0, hyper_epsilon(b)};
  if (mixes) {
    params.iterations = b.hparams().positive_int("hyper_connection.sinkhorn_iterations", 1000);
  } else {
    params.magnitude = static_cast<float>(b.hparams().get_float("hyper_connection.magnitude", 2));
    params.out_epsilon = params.epsilon;
  }
  const ValueId mixed = b.linear(b.unit_norm(x, tensor + "_norm", b.width_of(x)), tensor + "_fn", parts * count);
  const ValueId in = b.value(tensor + "_in", count, b.gathered(x)), out = b.value(tensor + "_out", outs, b.gathered(x));
  b.program().ops.push_back(
      {OpKind::hyper_gates,
       b.layer_index(),
       tensor + "_gates",
       {mixed},
       {in, out},
       {b.vector(tensor + "_scale.weight", mixes ? 3 : 2), b.vector(tensor + "_base.weight", parts * count)},
       params});
  return {b.emit(OpKind::expert_sum, tensor + "_sum", {x, in}, b.width_of(x) / count, {}, core::ExpertParams{count}),
          out};
}

static float hyper_epsilon(const Builder& b) {
  const double epsilon = b.hparams().get_float("hyper_connection.epsilon", 0);
  if (!(epsilon >= 0 && epsilon < 1))
    throw_error("{}: {} is {}, expected 0 to 1", b.file().path(), b.hparams().key("hyper_connection.epsilon"), epsilon);
  return static_cast<float>(epsilon);
}

// Sum of the streams weighted by sigmoid(scale * y + base) + epsilon. The scale is in the norm before y.
static ValueId gated_sum(Builder& b, ValueId x, const std::string& tensor) {
  const int64_t count = hyper_count(b), width = b.width_of(x) / count;
  const ValueId normed = b.unit_norm(x, tensor + "_norm", b.width_of(x));
  const core::Weight scale = b.tensor_weight(tensor + "_scale.weight", 1, 1, 1);
  b.require_f32(scale);
  float factor;
  std::memcpy(&factor, scale.data, sizeof factor);
  b.scale_weight(b.program().ops.back().weights[0], factor);
  const ValueId mixed =
      b.emit(OpKind::linear, tensor + "_fn", {normed}, count,
             {b.weight(tensor + "_fn.weight", b.width_of(x), count), b.vector(tensor + "_base.weight", count)});
  const ValueId gates = activate(b, mixed, tensor + "_gates", {{Activation::sigmoid}});
  const ValueId sum = b.emit(OpKind::expert_sum, tensor + "_sum", {x, gates}, width, {}, core::ExpertParams{count});
  return b.add(sum, b.emit(OpKind::fold, tensor + "_rest", {x}, width, {}, core::FoldParams{hyper_epsilon(b)}),
               tensor + "_add");
}

// Mean of the streams with gates from a low-rank matrix.
static ValueId gated_mean(Builder& b, ValueId normed, const std::string& tensor) {
  const int64_t count = hyper_count(b), rank = b.hparams().positive_int("hyper_connection.low_rank", kMaxWidth);
  const float share = 1 / static_cast<float>(count);
  const ValueId low =
      b.emit(OpKind::activate, tensor + "_silu", {b.linear(normed, tensor + "_down", rank)}, rank,
             {b.constant(tensor + "_share", rank, share)}, core::ActivationParams{Activation::silu, share});
  const ValueId gate = b.linear(low, tensor + "_up", b.width_of(normed));
  return b.emit(OpKind::fold, tensor + "_mean", {glu(b, Activation::sigmoid, gate, normed, tensor + "_gate")},
                b.width_of(normed) / count, {}, core::FoldParams{share});
}

std::pair<ValueId, ValueId> hyper_input(Builder& b, HyperConnections kind, ValueId x, const std::string& tensor) {
  if (kind != HyperConnections::gated) return hyper_gates(b, x, tensor, kind != HyperConnections::independent);
  const int64_t count = hyper_count(b);
  const ValueId normed = b.group_norm(x, tensor + "_norm", b.width_of(x) / count);
  // Centered at 1: if the matrix gives 0, the output is added unchanged.
  const ValueId out = b.emit(OpKind::activate, tensor + "_out", {b.linear(normed, tensor + "_inject", count)}, count,
                             {b.constant(tensor + "_double", count, 2)},
                             core::ActivationParams{Activation::sigmoid, 1 / static_cast<float>(count)});
  return {gated_mean(b, normed, tensor), out};
}

ValueId hyper_begin(Builder& b, ValueId x) { return repeated(b, x, "hyper_begin", hyper_count(b)); }

ValueId hyper_end(Builder& b, HyperConnections kind, ValueId x) {
  const std::string tensor = "output_hc";
  b.leave_layers();
  if (kind == HyperConnections::independent || kind == HyperConnections::mixing_to_gates)
    return gated_sum(b, x, tensor);
  if (kind == HyperConnections::gated)
    return gated_mean(b, b.group_norm(x, tensor + "_norm", b.hparams().width()), tensor);
  const auto share = static_cast<float>(b.hparams().width()) / static_cast<float>(b.width_of(x));
  return b.emit(OpKind::fold, "hyper_end", {x}, b.hparams().width(), {}, core::FoldParams{share});
}

} // namespace ridge::models::blocks
