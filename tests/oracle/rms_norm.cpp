#include "support/naive.h"

#include <cmath>

namespace ridge::tests {

void naive_rms_norm(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::NormParams>(op.params);
  const Naive::Row w = naive.weight_row(op.weights[0], 0);
  naive.for_rows(op, [&](size_t t) {
    Naive::Row y = naive.in(op, 0, t);
    for (size_t g = 0; g < y.size(); g += p.group) {
      double sum = 0;
      for (int64_t i = 0; i < p.group; ++i) sum += y[g + i] * y[g + i];
      for (int64_t i = 0; i < p.group; ++i)
        y[g + i] *= w[w.size() == y.size() ? g + i : i] / std::sqrt(sum / static_cast<double>(p.group) + p.epsilon);
    }
    return y;
  });
}

} // namespace ridge::tests
