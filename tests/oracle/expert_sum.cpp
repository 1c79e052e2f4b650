// expert_sum: the sum of a token's experts by their shares.
#include "support/naive.h"

namespace ridge::tests {

void naive_expert_sum(Naive& naive, const core::Op& op) {
  naive.for_rows(op, [&](size_t t) {
    const Naive::Row &x = naive.in(op, 0, t), &shares = naive.in(op, 1, t);
    Naive::Row y(naive.program().values[op.outputs[0]].width);
    for (size_t s = 0; s < shares.size(); ++s)
      for (size_t i = 0; i < y.size(); ++i) y[i] += shares[s] * x[s * y.size() + i];
    return y;
  });
}

} // namespace ridge::tests
