#include "support/naive.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ridge::tests {

Naive::Row attend_to_latent_keys(Naive& naive, const core::Op& op, size_t t, const std::vector<int64_t>& positions) {
  const auto& p = std::get<core::AttentionParams>(op.params);
  const core::KvLayer& kv = naive.program().kv_layers[p.layer];
  const std::vector<Naive::Cached>& history = naive.history(p.layer, naive.stream(t));
  const int64_t rest = kv.k_dim - kv.v_dim;
  Naive::Row y(p.heads * kv.v_dim);
  for (int64_t h = 0; h < p.heads; ++h) {
    Naive::Row score;
    for (const int64_t pos : positions) {
      const Naive::Row& key = history[pos].k;
      double dot = 0;
      for (int64_t d = 0; d < kv.v_dim; ++d) dot += naive.in(op, 0, t)[h * kv.v_dim + d] * key[d];
      for (int64_t d = 0; d < rest; ++d) dot += naive.in(op, 1, t)[h * rest + d] * key[kv.v_dim + d];
      score.push_back(dot * p.scale);
    }
    if (!op.weights.empty()) score.push_back(naive.weight_row(op.weights[0], 0)[h]); // sink
    const double largest = *std::ranges::max_element(score);
    double sum = 0;
    for (double& s : score) sum += s = std::exp(s - largest);
    for (size_t i = 0; i < positions.size(); ++i)
      for (int64_t d = 0; d < kv.v_dim; ++d) y[h * kv.v_dim + d] += score[i] / sum * history[positions[i]].v[d];
  }
  return y;
}

void naive_latent_attention(Naive& naive, const core::Op& op) {
  naive.for_rows(op, [&](size_t t) {
    const int64_t position = naive.batch().positions[t];
    const int64_t first = std::get<core::AttentionParams>(op.params).first_seen(position);
    std::vector<int64_t> seen(position + 1 - first);
    std::iota(seen.begin(), seen.end(), first);
    return attend_to_latent_keys(naive, op, t, seen);
  });
}

} // namespace ridge::tests
