// The gated delta rule, token after token: an item is one head of one stream of the batch.
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>
#include <cmath>

namespace ridge::kernels::cpu {
namespace {

struct Delta {
  core::DeltaParams params;
  const float *qkv, *alpha, *beta; // [tokens][(2 k_heads + v_heads) dim], [tokens][v_heads] each
  const float *a, *bias;           // [v_heads]
  float* out;                      // [tokens][v_heads dim]

  // x / sqrt(x² + epsilon) * factor
  void normed(const float* x, double factor, float* to) const {
    double squares = params.epsilon;
    for (int64_t i = 0; i < params.dim; ++i) squares += static_cast<double>(x[i]) * x[i];
    const auto scale = static_cast<float>(factor / std::sqrt(squares));
    for (int64_t i = 0; i < params.dim; ++i) to[i] = x[i] * scale;
  }

  void run(const BatchState::Sequence& sequence, float* state, int64_t head, float* scratch) const {
    const int64_t dim = params.dim, k_head = params.k_head(head);
    float *q = scratch, *k = scratch + dim;
    state += head * dim * dim;
    if (sequence.starts) std::fill_n(state, dim * dim, 0.0f);
    for (const int64_t t : sequence.tokens) {
      const float* x = qkv + t * (2 * params.k_heads + params.v_heads) * dim;
      normed(x + k_head * dim, 1 / std::sqrt(static_cast<double>(dim)), q);
      normed(x + (params.k_heads + k_head) * dim, 1, k);
      const int64_t at = t * params.v_heads + head;
      const double decay = std::exp(a[head] * softplus(static_cast<double>(alpha[at]) + bias[head]));
      const double learned = 1 / (1 + std::exp(-static_cast<double>(beta[at])));
      recurrent_kernels().delta_rule(q, k, x + (2 * params.k_heads + head) * dim, static_cast<float>(decay),
                                     static_cast<float>(learned), dim, state, out + at * dim);
    }
  }
};

} // namespace

void lower_delta_rule(Lowering& lowering, const core::Op& op) {
  const auto params = std::get<core::DeltaParams>(op.params);
  const Delta delta = {params,
                       lowering.value(op.inputs[0]),
                       lowering.value(op.inputs[1]),
                       lowering.value(op.inputs[2]),
                       lowering.vector_weight(op.weights[0]).data(),
                       lowering.vector_weight(op.weights[1]).data(),
                       lowering.value(op.outputs[0])};
  lowering.add_sequences(op, params.state, params.v_heads,
                         [=, &lowering](const BatchState::Sequence& sequence, float* state, int64_t head, int thread) {
                           delta.run(sequence, state, head, lowering.recurrent_scratch(thread));
                         });
}

} // namespace ridge::kernels::cpu
