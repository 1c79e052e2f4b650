#include "support/naive.h"

#include <cmath>

namespace ridge::tests {

void naive_wkv7(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::WkvParams>(op.params);
  naive.for_rows(op, [&](size_t t) {
    const Naive::Row &r = naive.in(op, 0, t), &decay = naive.in(op, 1, t), &k = naive.in(op, 2, t),
                     &v = naive.in(op, 3, t), &d = naive.in(op, 4, t), &rate = naive.in(op, 5, t);
    Naive::Matrix& state = naive.states(p.state, t); // [heads * dim (v)][dim (k)]
    state.resize(p.heads * p.dim, Naive::Row(p.dim, 0.0));
    Naive::Row y(p.heads * p.dim, 0.0);
    for (int64_t j = 0; j < p.heads * p.dim; ++j) {
      const int64_t head = j / p.dim * p.dim;
      double found = 0;
      for (int64_t i = 0; i < p.dim; ++i) found += state[j][i] * d[head + i];
      for (int64_t i = 0; i < p.dim; ++i) {
        const int64_t at = head + i;
        const double kept = std::exp(-std::exp(-0.5) / (1 + std::exp(-decay[at])));
        state[j][i] = state[j][i] * kept - found * rate[at] * d[at] + v[j] * k[at];
        y[j] += state[j][i] * r[at];
      }
    }
    return y;
  });
}

} // namespace ridge::tests
