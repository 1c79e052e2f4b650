#include "support/naive.h"

namespace ridge::tests {

void naive_expert_linear(Naive& naive, const core::Op& op) {
  const core::Weight& w = naive.program().weights[op.weights[0]];
  naive.for_rows(op, [&](size_t t) {
    const Naive::Row &x = naive.in(op, 0, t), &ids = naive.in(op, 1, t);
    const bool shared = static_cast<int64_t>(x.size()) == w.cols;
    Naive::Row y;
    for (size_t s = 0; s < ids.size(); ++s) {
      const Naive::Row part =
          naive.multiply(op.weights[0], static_cast<int64_t>(ids[s]) * w.rows, x.data() + (shared ? 0 : s * w.cols));
      y.insert(y.end(), part.begin(), part.end());
      if (op.weights.size() == 1) continue;
      const Naive::Row bias = naive.weight_row(op.weights[1], 0);
      for (int64_t i = 0; i < w.rows; ++i) y[y.size() - w.rows + i] += bias[static_cast<int64_t>(ids[s]) * w.rows + i];
    }
    return y;
  });
}

} // namespace ridge::tests
