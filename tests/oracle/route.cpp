// route: the experts with the highest scores, equal ones in their order, and their shares of the softmax.
#include "support/naive.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ridge::tests {

void naive_route(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::RouteParams>(op.params);
  naive.for_rows(op, [&](size_t t) {
    const Naive::Row& x = naive.in(op, 0, t);
    std::vector<int> order(x.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return x[a] > x[b]; });
    double all = 0, chosen = 0;
    for (double e : x) all += std::exp(e - x[order[0]]);
    Naive::Row ids, shares;
    for (int64_t s = 0; s < p.used; ++s) {
      ids.push_back(order[s]);
      shares.push_back(std::exp(x[order[s]] - x[order[0]]));
      chosen += shares.back();
    }
    for (double& s : shares) s /= p.normalize ? chosen : all;
    naive.value(op.outputs[1]).push_back(shares);
    return ids;
  });
}

} // namespace ridge::tests
