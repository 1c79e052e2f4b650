#include "support/naive.h"

#include <cmath>

namespace ridge::tests {

void naive_pool(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::PoolParams>(op.params);
  const Naive::Row bias = naive.weight_row(op.weights[0], 0);
  naive.for_rows(op, [&](size_t t) {
    Naive::Matrix& rows = naive.states(p.state, t); // inputs and gates alternate
    rows.push_back(naive.in(op, 0, t));
    rows.push_back(naive.in(op, 1, t));
    const auto tokens = std::ssize(rows) / 2, width = std::ssize(rows[0]), channels = p.overlaps ? width / 2 : width;
    Naive::Row y(channels);
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < p.kernel; ++i) {
        const int64_t from = tokens - p.kernel + i;
        if (from < 0 && p.overlaps) continue;
        const bool newer = p.overlaps && i >= p.kernel / 2;
        const int64_t column = newer ? channels + c : c, place = newer ? i - p.kernel / 2 : i;
        const double share = std::exp((from < 0 ? 0 : rows[2 * from + 1][column]) + bias[place * width + column]);
        sum += share;
        y[c] += share * (from < 0 ? 0 : rows[2 * from][column]);
      }
      y[c] /= sum;
    }
    return y;
  });
}

} // namespace ridge::tests
