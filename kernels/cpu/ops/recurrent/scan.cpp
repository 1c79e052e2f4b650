// Mamba 1 and 2. Item: a head of a stream.
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>
#include <cmath>

namespace ridge::kernels::cpu {
namespace {

struct Scan {
  core::ScanParams params;
  bool rate_per_state; // a is [heads][states], else [heads]
  const float *x, *b, *c, *dt;
  int64_t x_stride, b_stride, c_stride;
  const float *a, *d, *bias;
  float* out; // [tokens][heads head_dim]

  void run(const BatchState::Sequence& sequence, float* state, int64_t head, float* decay) const {
    const int64_t states = params.states, rows = params.head_dim;
    const int64_t group = head / (params.heads / params.groups) * states;
    state += head * rows * states;
    if (sequence.starts_from_zero) std::fill_n(state, rows * states, 0.0f);
    for (const int64_t t : sequence.tokens) {
      const double step = softplus(static_cast<double>(dt[t * params.heads + head]) + bias[head]);
      if (rate_per_state)
        for (int64_t n = 0; n < states; ++n) decay[n] = static_cast<float>(std::exp(step * a[head * states + n]));
      else
        std::fill_n(decay, states, static_cast<float>(std::exp(step * a[head])));
      for (int64_t i = 0; i < rows; ++i) {
        const float value = x[t * x_stride + head * rows + i];
        const float sum = recurrent_kernels().scan(decay, b + t * b_stride + group, c + t * c_stride + group,
                                                   static_cast<float>(step * value), states, state + i * states);
        out[(t * params.heads + head) * rows + i] = sum + d[head] * value;
      }
    }
  }
};

} // namespace

void lower_scan(Lowering& lowering, const core::Op& op) {
  const auto params = std::get<core::ScanParams>(op.params);
  const auto input = [&](size_t i) { return lowering.value(op.inputs[i]); };
  const auto width = [&](size_t i) { return lowering.info(op.inputs[i]).width; };
  const auto vector = [&](size_t i) { return lowering.vector_weight(op.weights[i]).data(); };
  const Scan scan = {params,
                     lowering.weight(op.weights[0]).cols != params.heads,
                     input(0) + params.x_at,
                     input(1) + params.b_at,
                     input(2) + params.c_at,
                     input(3),
                     width(0),
                     width(1),
                     width(2),
                     vector(0),
                     vector(1),
                     vector(2),
                     lowering.value(op.outputs[0])};
  lowering.add_sequences(op, params.state, params.heads,
                         [=, &lowering](const BatchState::Sequence& sequence, float* state, int64_t head, int thread) {
                           scan.run(sequence, state, head, lowering.recurrent_scratch(thread));
                         });
}

} // namespace ridge::kernels::cpu
