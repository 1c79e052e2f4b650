// One rank: the identity. tests/kernels/cpu/parallel_test.cpp compares several.
#include "support/naive.h"

namespace ridge::tests {

void naive_all_reduce(Naive& naive, const core::Op& op) {
  naive.for_rows(op, [&](size_t t) { return naive.in(op, 0, t); });
}

} // namespace ridge::tests
