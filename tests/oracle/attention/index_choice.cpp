// Ascending, ties by the first; or as std::partial_sort leaves them.
#include "support/naive.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ridge::tests {

namespace {

Naive::Row best_positions(const Naive::Row& scores, int64_t span, int64_t seen, int64_t most) {
  std::vector<int> order(seen);
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](int position) {
    const size_t entry = position / span;
    return entry < scores.size() ? scores[entry] : INFINITY;
  };
  std::partial_sort(order.begin(), order.begin() + std::min(most, seen), order.end(),
                    [&](int a, int b) { return score(a) > score(b); });
  Naive::Row chosen(order.begin(), order.begin() + std::min(most, seen));
  chosen.resize(most, -1);
  return chosen;
}

} // namespace

void naive_index_choice(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::IndexParams>(op.params);
  const core::KvLayer& kv = naive.program().kv_layers[p.layer];
  const int64_t dim = kv.k_dim, most = naive.program().values[op.outputs[0]].width;
  naive.for_rows(op, [&](size_t t) {
    const std::vector<Naive::Cached>& history = naive.history(p.layer, naive.stream(t));
    const int64_t seen = naive.batch().positions[t] + 1, count = seen / kv.span;
    Naive::Row scores(count);
    for (int64_t pos = 0; pos < count; ++pos)
      for (int64_t h = 0; h < p.heads; ++h) {
        double dot = 0;
        for (int64_t d = 0; d < dim; ++d) dot += naive.in(op, 0, t)[h * dim + d] * history[pos].k[d];
        scores[pos] += (p.unweighted ? 1 : naive.in(op, 1, t)[h]) * std::max(0.0, dot);
      }
    if (p.chooses_positions) return best_positions(scores, kv.span, seen, most);
    std::vector<int> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int a, int b) { return scores[a] > scores[b]; });
    order.resize(std::min(count, most / kv.span));
    std::ranges::sort(order);
    Naive::Row chosen;
    for (const int entry : order)
      for (int64_t i = 0; i < kv.span; ++i) chosen.push_back(static_cast<double>(entry * kv.span + i));
    for (int64_t pos = count * kv.span; pos < seen && p.tail; ++pos) chosen.push_back(static_cast<double>(pos));
    chosen.resize(most, -1);
    return chosen;
  });
}

} // namespace ridge::tests
