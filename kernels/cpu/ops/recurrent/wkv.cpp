// RWKV 6. Item: a head of a stream.
#include "core/target_clones.h"
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>
#include <cmath>

namespace ridge::kernels::cpu {
namespace {

RIDGE_CLONES void step(const float* v, float receptance, float bonus_term, float decay_factor, float key, int64_t dim,
                       float* s, float* y) {
  for (int64_t j = 0; j < dim; ++j) {
    y[j] += receptance * s[j] + bonus_term * v[j];
    s[j] = decay_factor * s[j] + key * v[j];
  }
}

struct Wkv {
  core::WkvParams params;
  const float *r, *k, *v, *decay; // [tokens][heads dim]
  const float *bonus, *bias;      // [heads dim]
  float* out;

  void run(const BatchState::Sequence& sequence, float* state, int64_t head) const {
    const int64_t dim = params.dim, first = head * dim;
    state += head * dim * dim;
    if (sequence.starts_from_zero) std::fill_n(state, dim * dim, 0.0f);
    for (const int64_t t : sequence.tokens) {
      const int64_t at = t * params.heads * dim + first;
      float* y = out + at;
      std::fill_n(y, dim, 0.0f);
      for (int64_t i = 0; i < dim; ++i) {
        const float receptance = r[at + i], key = k[at + i], bonus_term = receptance * bonus[first + i] * key;
        const float decay_factor = std::exp(-std::exp(decay[at + i] + bias[first + i]));
        step(v + at, receptance, bonus_term, decay_factor, key, dim, state + i * dim, y);
      }
    }
  }
};

} // namespace

void lower_wkv(Lowering& lowering, const core::Op& op) {
  const auto params = std::get<core::WkvParams>(op.params);
  const auto input = [&](size_t i) { return lowering.value(op.inputs[i]); };
  const auto vector = [&](size_t i) { return lowering.vector_weight(op.weights[i]).data(); };
  const Wkv wkv = {params, input(0), input(1), input(2), input(3), vector(0), vector(1), lowering.value(op.outputs[0])};
  lowering.add_sequences(
      op, params.state, params.heads,
      [=](const BatchState::Sequence& sequence, float* state, int64_t head, int) { wkv.run(sequence, state, head); });
}

} // namespace ridge::kernels::cpu
