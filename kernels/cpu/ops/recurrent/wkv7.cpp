// RWKV 7. Item: a head of a stream.
#include "core/target_clones.h"
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>
#include <cmath>

namespace ridge::kernels::cpu {
namespace {

RIDGE_CLONES void add_scaled(const float* s, float direction, int64_t dim, float* found) {
  for (int64_t j = 0; j < dim; ++j) found[j] += direction * s[j];
}

RIDGE_CLONES void step(const float* v, const float* found, float decay_factor, float key, float erased,
                       float receptance, int64_t dim, float* s, float* y) {
  for (int64_t j = 0; j < dim; ++j) {
    s[j] = decay_factor * s[j] + key * v[j] - erased * found[j];
    y[j] += receptance * s[j];
  }
}

struct Wkv7 {
  core::WkvParams params;
  const float *r, *decay, *k, *v, *direction, *rate; // [tokens][heads dim]
  float* out;

  void run(const BatchState::Sequence& sequence, float* state, int64_t head) const {
    const int64_t dim = params.dim;
    const float decay_scale = std::exp(-0.5f);
    float found[core::kMaxWkvDim];
    state += head * dim * dim;
    if (sequence.starts_from_zero) std::fill_n(state, dim * dim, 0.0f);
    for (const int64_t t : sequence.tokens) {
      const int64_t at = (t * params.heads + head) * dim;
      float* y = out + at;
      std::fill_n(y, dim, 0.0f);
      std::fill_n(found, dim, 0.0f);
      for (int64_t i = 0; i < dim; ++i) add_scaled(state + i * dim, direction[at + i], dim, found);
      for (int64_t i = 0; i < dim; ++i) {
        const float decay_factor = std::exp(-decay_scale / (1 + std::exp(-decay[at + i])));
        step(v + at, found, decay_factor, k[at + i], rate[at + i] * direction[at + i], r[at + i], dim, state + i * dim,
             y);
      }
    }
  }
};

} // namespace

void lower_wkv7(Lowering& lowering, const core::Op& op) {
  const auto params = std::get<core::WkvParams>(op.params);
  const auto input = [&](size_t i) { return lowering.value(op.inputs[i]); };
  const Wkv7 wkv = {params, input(0), input(1), input(2), input(3), input(4), input(5), lowering.value(op.outputs[0])};
  lowering.add_sequences(
      op, params.state, params.heads,
      [=](const BatchState::Sequence& sequence, float* state, int64_t head, int) { wkv.run(sequence, state, head); });
}

} // namespace ridge::kernels::cpu
