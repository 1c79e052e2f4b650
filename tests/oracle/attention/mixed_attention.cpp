#include "support/naive.h"

#include <algorithm>
#include <cmath>

namespace ridge::tests {

void naive_mixed_attention(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::MixedParams>(op.params);
  const int64_t dim = naive.program().kv_layers[p.layer].k_dim, span = naive.program().kv_layers[p.entries].span;
  naive.for_rows(op, [&](size_t t) {
    const int64_t position = naive.batch().positions[t];
    const std::vector<Naive::Cached>&rows = naive.history(p.layer, naive.stream(t)),
          &entries = naive.history(p.entries, naive.stream(t));
    std::vector<const Naive::Row*> keys;
    for (int64_t at = p.first_seen(position); at <= position; ++at) keys.push_back(&rows[at].k);
    if (op.inputs[1] == op.inputs[0]) {
      for (int64_t entry = 0; entry < (position + 1) / span; ++entry) keys.push_back(&entries[entry].k);
    } else {
      const Naive::Row& chosen = naive.in(op, 1, t);
      for (size_t i = 0; i < chosen.size() && chosen[i] >= 0; i += span)
        keys.push_back(&entries[static_cast<int64_t>(chosen[i]) / span].k);
    }
    Naive::Row y(p.heads * dim);
    for (int64_t h = 0; h < p.heads; ++h) {
      Naive::Row score;
      for (const Naive::Row* key : keys) {
        double dot = 0;
        for (int64_t d = 0; d < dim; ++d) dot += naive.in(op, 0, t)[h * dim + d] * (*key)[d];
        score.push_back(dot * p.scale);
      }
      if (!op.weights.empty()) score.push_back(naive.weight_row(op.weights[0], 0)[h]); // sink
      const double largest = *std::ranges::max_element(score);
      double sum = 0;
      for (double& s : score) sum += s = std::exp(s - largest);
      for (size_t i = 0; i < keys.size(); ++i)
        for (int64_t d = 0; d < dim; ++d) y[h * dim + d] += score[i] / sum * (*keys[i])[d];
    }
    return y;
  });
}

} // namespace ridge::tests
