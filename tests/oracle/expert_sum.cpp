#include "support/naive.h"

namespace ridge::tests {

void naive_expert_sum(Naive& naive, const core::Op& op) {
  naive.for_rows(op, [&](size_t t) {
    const Naive::Row &x = naive.in(op, 0, t), &shares = naive.in(op, 1, t);
    Naive::Row y(naive.program().values[op.outputs[0]].width);
    const size_t used = std::get<core::ExpertParams>(op.params).used, width = x.size() / used;
    for (size_t i = 0; i < y.size(); ++i)
      for (size_t s = 0; s < used; ++s) y[i] += shares[i / width * used + s] * x[s * width + i % width];
    return y;
  });
}

} // namespace ridge::tests
