// Item: a head of a stream.
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>
#include <cmath>

namespace ridge::kernels::cpu {
namespace {

struct Delta {
  core::DeltaParams params;
  const float *q, *k, *v; // [tokens][stride]
  int64_t q_stride, k_stride, v_stride;
  const float *alpha, *beta; // [tokens][v_heads * alphas], [tokens][v_heads]
  const float *a, *bias;     // [v_heads], [v_heads * alphas]
  int64_t alphas;            // 1, or per element of k
  float* out;                // [tokens][v_heads dim]

  void normed(const float* x, double factor, float* to) const {
    double squares = params.epsilon;
    for (int64_t i = 0; i < params.dim; ++i) squares += static_cast<double>(x[i]) * x[i];
    const auto scale = static_cast<float>(factor / std::sqrt(squares));
    for (int64_t i = 0; i < params.dim; ++i) to[i] = x[i] * scale;
  }

  float decay(double x, int64_t head) const {
    const double log = params.least < 0 ? params.least / (1 + std::exp(a[head] * x)) : a[head] * softplus(x);
    return static_cast<float>(std::exp(log));
  }

  void run(const BatchState::Sequence& sequence, float* state, int64_t head, float* scratch) const {
    const int64_t dim = params.dim, k_head = params.k_head(head);
    float *unit_q = scratch, *unit_k = scratch + dim, *decays = scratch + 2 * dim;
    state += head * dim * dim;
    if (sequence.starts_from_zero) std::fill_n(state, dim * dim, 0.0f);
    for (const int64_t t : sequence.tokens) {
      normed(q + t * q_stride + k_head * dim, 1 / std::sqrt(static_cast<double>(dim)), unit_q);
      normed(k + t * k_stride + k_head * dim, 1, unit_k);
      const int64_t at = t * params.v_heads + head;
      for (int64_t i = 0; i < alphas; ++i)
        decays[i] = decay(static_cast<double>(alpha[at * alphas + i]) + bias[head * alphas + i], head);
      if (alphas == 1) std::fill_n(decays, dim, decays[0]);
      const double learned = 1 / (1 + std::exp(-static_cast<double>(beta[at])));
      recurrent_kernels().delta_rule(unit_q, unit_k, v + t * v_stride + head * dim, decays, static_cast<float>(learned),
                                     dim, state, out + at * dim);
    }
  }
};

} // namespace

void lower_delta_rule(Lowering& lowering, const core::Op& op) {
  const auto params = std::get<core::DeltaParams>(op.params);
  const auto width = [&](size_t i) { return lowering.info(op.inputs[i]).width; };
  const Delta delta = {params,
                       lowering.value(op.inputs[0]) + params.q_at,
                       lowering.value(op.inputs[1]) + params.k_at,
                       lowering.value(op.inputs[2]) + params.v_at,
                       width(0),
                       width(1),
                       width(2),
                       lowering.value(op.inputs[3]),
                       lowering.value(op.inputs[4]),
                       lowering.vector_weight(op.weights[0]).data(),
                       lowering.vector_weight(op.weights[1]).data(),
                       width(3) / params.v_heads,
                       lowering.value(op.outputs[0])};
  lowering.add_sequences(op, params.state, params.v_heads,
                         [=, &lowering](const BatchState::Sequence& sequence, float* state, int64_t head, int thread) {
                           delta.run(sequence, state, head, lowering.recurrent_scratch(thread));
                         });
}

} // namespace ridge::kernels::cpu
