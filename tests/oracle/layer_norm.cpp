#include "support/naive.h"

#include <cmath>

namespace ridge::tests {

void naive_layer_norm(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::NormParams>(op.params);
  const Naive::Row w = naive.weight_row(op.weights[0], 0);
  const Naive::Row b = op.weights.size() > 1 ? naive.weight_row(op.weights[1], 0) : Naive::Row(w.size(), 0.0);
  const auto count = static_cast<double>(p.group);
  naive.for_rows(op, [&](size_t t) {
    Naive::Row y = naive.in(op, 0, t);
    for (size_t g = 0; g < y.size(); g += p.group) {
      double mean = 0, variance = 0;
      for (int64_t i = 0; p.centered && i < p.group; ++i) mean += y[g + i] / count;
      for (int64_t i = 0; i < p.group; ++i) variance += (y[g + i] - mean) * (y[g + i] - mean) / count;
      for (int64_t i = 0; i < p.group; ++i) {
        const size_t at = w.size() == y.size() ? g + i : i;
        y[g + i] = (y[g + i] - mean) / std::sqrt(variance + p.epsilon) * w[at] + b[at];
      }
    }
    return y;
  });
}

} // namespace ridge::tests
