#include "support/activation.h"
#include "support/naive.h"

namespace ridge::tests {

void naive_scan(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::ScanParams>(op.params);
  const Naive::Row a = naive.weight_row(op.weights[0], 0), d = naive.weight_row(op.weights[1], 0),
                   bias = naive.weight_row(op.weights[2], 0);
  const bool rate_per_state = static_cast<int64_t>(a.size()) != p.heads;
  naive.for_rows(op, [&](size_t t) {
    Naive::Matrix& state = naive.states(p.state, t); // [heads * head_dim][states]
    state.resize(p.heads * p.head_dim, Naive::Row(p.states, 0.0));
    Naive::Row y(p.heads * p.head_dim);
    for (int64_t h = 0; h < p.heads; ++h) {
      const int64_t group = h / (p.heads / p.groups) * p.states;
      const double step = softplus(naive.in(op, 3, t)[h] + bias[h]);
      for (int64_t i = h * p.head_dim; i < (h + 1) * p.head_dim; ++i) {
        const double x = naive.in(op, 0, t)[p.x_at + i];
        y[i] = d[h] * x;
        for (int64_t n = 0; n < p.states; ++n) {
          double& s = state[i][n];
          s = s * std::exp(step * a[rate_per_state ? h * p.states + n : h]) +
              step * x * naive.in(op, 1, t)[p.b_at + group + n];
          y[i] += s * naive.in(op, 2, t)[p.c_at + group + n];
        }
      }
    }
    return y;
  });
}

} // namespace ridge::tests
