// latent_attention: each query head, in two parts, against the one history of its stream.
#include "support/naive.h"

#include <algorithm>
#include <cmath>

namespace ridge::tests {

void naive_latent_attention(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::AttentionParams>(op.params);
  const core::KvLayer& kv = naive.program().kv_layers[p.layer];
  const int64_t rest = kv.k_dim - kv.v_dim;
  naive.for_rows(op, [&](size_t t) {
    const std::vector<Naive::Cached>& history = naive.history(p.layer, naive.stream(t));
    const int64_t end = naive.batch().positions[t] + 1;
    Naive::Row y(p.heads * kv.v_dim);
    for (int64_t h = 0; h < p.heads; ++h) {
      Naive::Row score(end);
      for (int64_t pos = 0; pos < end; ++pos) {
        const Naive::Row& key = history[pos].k;
        for (int64_t d = 0; d < kv.v_dim; ++d) score[pos] += p.scale * naive.in(op, 0, t)[h * kv.v_dim + d] * key[d];
        for (int64_t d = 0; d < rest; ++d) score[pos] += p.scale * naive.in(op, 1, t)[h * rest + d] * key[kv.v_dim + d];
      }
      const double largest = *std::ranges::max_element(score);
      double sum = 0;
      for (double& s : score) sum += s = std::exp(s - largest);
      for (int64_t pos = 0; pos < end; ++pos)
        for (int64_t d = 0; d < kv.v_dim; ++d) y[h * kv.v_dim + d] += score[pos] / sum * history[pos].v[d];
    }
    return y;
  });
}

} // namespace ridge::tests
