#include "support/naive.h"

#include <cmath>

namespace ridge::tests {

void naive_wkv(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::WkvParams>(op.params);
  const Naive::Row bonus = naive.weight_row(op.weights[0], 0), bias = naive.weight_row(op.weights[1], 0);
  naive.for_rows(op, [&](size_t t) {
    const Naive::Row &r = naive.in(op, 0, t), &k = naive.in(op, 1, t), &v = naive.in(op, 2, t),
                     &decay = naive.in(op, 3, t);
    Naive::Matrix& state = naive.states(p.state, t); // [heads * dim (k)][dim (v)]
    state.resize(p.heads * p.dim, Naive::Row(p.dim, 0.0));
    Naive::Row y(p.heads * p.dim, 0.0);
    for (int64_t i = 0; i < p.heads * p.dim; ++i) {
      const int64_t head = i / p.dim * p.dim;
      for (int64_t j = 0; j < p.dim; ++j) {
        double& s = state[i][j];
        y[head + j] += r[i] * (s + bonus[i] * k[i] * v[head + j]);
        s = s * std::exp(-std::exp(decay[i] + bias[i])) + k[i] * v[head + j];
      }
    }
    return y;
  });
}

} // namespace ridge::tests
