#include "support/naive.h"

#include <cstring>

namespace ridge::tests {

void naive_permute(Naive& naive, const core::Op& op) {
  const size_t group = std::get<core::PermuteParams>(op.params).group;
  const core::Weight& picks = naive.program().weights[op.weights[0]];
  std::vector<int32_t> order(picks.cols);
  std::memcpy(order.data(), picks.data, 4 * order.size());
  naive.for_rows(op, [&](size_t t) {
    const Naive::Row& x = naive.in(op, 0, t);
    Naive::Row y;
    for (size_t first = 0; first < x.size(); first += group)
      for (const int32_t from : order) y.push_back(x[first + from]);
    return y;
  });
}

} // namespace ridge::tests
