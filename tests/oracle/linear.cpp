#include "support/naive.h"

namespace ridge::tests {

void naive_linear(Naive& naive, const core::Op& op) {
  naive.for_rows(op, [&](size_t t) {
    Naive::Row y = naive.multiply(op.weights[0], 0, naive.in(op, 0, t).data());
    if (op.weights.size() > 1) {
      const Naive::Row bias = naive.weight_row(op.weights[1], 0);
      for (size_t i = 0; i < y.size(); ++i) y[i] += bias[i];
    }
    return y;
  });
}

} // namespace ridge::tests
