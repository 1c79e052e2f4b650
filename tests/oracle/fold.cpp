#include "support/naive.h"

namespace ridge::tests {

void naive_fold(Naive& naive, const core::Op& op) {
  const int64_t width = naive.program().values[op.outputs[0]].width;
  naive.for_rows(op, [&](size_t t) {
    const Naive::Row& x = naive.in(op, 0, t);
    Naive::Row y(width);
    for (size_t i = 0; i < x.size(); ++i) y[i % width] += std::get<core::FoldParams>(op.params).scale * x[i];
    return y;
  });
}

} // namespace ridge::tests
