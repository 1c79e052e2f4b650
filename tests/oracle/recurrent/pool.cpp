// pool: per channel, the last inputs of the token's stream weighed by a softmax of their gates; before the first token
// input and gate are zero.
#include "support/naive.h"

#include <cmath>

namespace ridge::tests {

void naive_pool(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::PoolParams>(op.params);
  const Naive::Row bias = naive.weight_row(op.weights[0], 0);
  naive.for_rows(op, [&](size_t t) {
    Naive::Matrix& rows = naive.states(p.state, t); // inputs and gates in turns
    rows.push_back(naive.in(op, 0, t));
    rows.push_back(naive.in(op, 1, t));
    const auto tokens = std::ssize(rows) / 2, channels = std::ssize(rows[0]);
    Naive::Row y(channels);
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < p.kernel; ++i) {
        const int64_t from = tokens - p.kernel + i;
        const double share = std::exp((from < 0 ? 0 : rows[2 * from + 1][c]) + bias[i * channels + c]);
        sum += share;
        y[c] += share * (from < 0 ? 0 : rows[2 * from][c]);
      }
      y[c] /= sum;
    }
    return y;
  });
}

} // namespace ridge::tests
