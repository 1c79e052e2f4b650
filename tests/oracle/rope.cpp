#include "support/naive.h"

#include <cmath>

namespace ridge::tests {

void naive_rope(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::RopeParams>(op.params);
  const core::RopeTable& table = naive.program().rope_tables[p.table];
  const bool split = table.style == core::RopeStyle::split;
  const size_t pairs = table.inverse_frequency.size();
  naive.for_rows(op, [&](size_t t) {
    Naive::Row y = naive.in(op, 0, t);
    for (int64_t h = 0; h < p.heads; ++h)
      for (size_t i = 0; i < pairs; ++i) {
        double& a = y[h * p.head_dim + (split ? i : 2 * i)];
        double& b = y[h * p.head_dim + (split ? i + pairs : 2 * i + 1)];
        const core::Batch& batch = naive.batch();
        const int32_t place = table.axes.empty() || batch.axes.empty()
                                  ? batch.positions[t] / table.span * table.span
                                  : batch.axes[t * core::kPlaceAxes + table.axes[i]];
        const double angle = place * static_cast<double>(table.inverse_frequency[i]);
        const double c = std::cos(angle) * table.magnitude, s = std::sin(angle) * table.magnitude;
        const double x0 = a, x1 = b;
        a = x0 * c - x1 * s;
        b = x0 * s + x1 * c;
      }
    return y;
  });
}

} // namespace ridge::tests
