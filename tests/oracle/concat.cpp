#include "support/naive.h"

namespace ridge::tests {

void naive_concat(Naive& naive, const core::Op& op) {
  naive.for_rows(op, [&](size_t t) {
    Naive::Row y = naive.in(op, 0, t);
    const Naive::Row& behind = naive.in(op, 1, t);
    y.insert(y.end(), behind.begin(), behind.end());
    return y;
  });
}

} // namespace ridge::tests
