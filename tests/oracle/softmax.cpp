#include "support/naive.h"

#include <algorithm>
#include <cmath>

namespace ridge::tests {

void naive_softmax(Naive& naive, const core::Op& op) {
  naive.for_rows(op, [&](size_t t) {
    Naive::Row y = naive.in(op, 0, t);
    const double largest = *std::ranges::max_element(y);
    double sum = 0;
    for (double& e : y) sum += e = std::exp(e - largest);
    for (double& e : y) e /= sum;
    return y;
  });
}

} // namespace ridge::tests
