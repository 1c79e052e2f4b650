#include "support/naive.h"

#include <cmath>

namespace ridge::tests {

void naive_sparse_attention(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::AttentionParams>(op.params);
  const core::KvLayer& kv = naive.program().kv_layers[p.layer];
  const int64_t k_dim = kv.k_dim, v_dim = kv.v_dim;
  naive.for_rows(op, [&](size_t t) {
    const std::vector<Naive::Cached>& history = naive.history(p.layer, naive.stream(t));
    Naive::Row y(p.heads * v_dim);
    for (int64_t h = 0; h < p.heads; ++h) {
      const int64_t kv_head = h / (p.heads / kv.heads);
      std::vector<double> scores;
      std::vector<int64_t> positions;
      for (const double position : naive.in(op, 1, t)) {
        if (position < 0) break;
        positions.push_back(static_cast<int64_t>(position));
        double dot = 0;
        for (int64_t d = 0; d < k_dim; ++d)
          dot += naive.in(op, 0, t)[h * k_dim + d] * history[positions.back()].k[kv_head * k_dim + d];
        scores.push_back(dot * p.scale);
      }
      double largest = -INFINITY, total = 0;
      for (const double score : scores) largest = std::max(largest, score);
      for (const double score : scores) total += std::exp(score - largest);
      for (size_t i = 0; i < scores.size(); ++i)
        for (int64_t d = 0; d < v_dim; ++d)
          y[h * v_dim + d] += std::exp(scores[i] - largest) / total * history[positions[i]].v[kv_head * v_dim + d];
    }
    return y;
  });
}

} // namespace ridge::tests
