#include "support/naive.h"

namespace ridge::tests {

void naive_add(Naive& naive, const core::Op& op) {
  const double scale = std::get<core::AddParams>(op.params).scale;
  naive.for_rows(op, [&](size_t t) {
    Naive::Row y = naive.in(op, 0, t);
    for (size_t i = 0; i < y.size(); ++i) y[i] += scale * naive.in(op, 1, t)[i];
    return y;
  });
}

} // namespace ridge::tests
