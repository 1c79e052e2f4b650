// attention: each query head against the history of its stream up to its own position.
#include "support/naive.h"

#include <algorithm>
#include <cmath>

namespace ridge::tests {
namespace {

// softmax(q Kᵀ · scale) V of one head over entries [first, last) of the history.
Naive::Row attend(const double* q, const std::vector<Naive::Cached>& history, int64_t first, int64_t last,
                  const core::KvLayer& kv, int64_t kv_head, double scale) {
  Naive::Row score;
  for (int64_t pos = first; pos < last; ++pos) {
    double dot = 0;
    for (int64_t d = 0; d < kv.k_dim; ++d) dot += q[d] * history[pos].k[kv_head * kv.k_dim + d];
    score.push_back(dot * scale);
  }
  const double largest = *std::max_element(score.begin(), score.end());
  double sum = 0;
  for (double& s : score) sum += s = std::exp(s - largest);
  Naive::Row out(kv.v_dim);
  for (size_t pos = 0; pos < score.size(); ++pos)
    for (int64_t d = 0; d < kv.v_dim; ++d) out[d] += score[pos] / sum * history[first + pos].v[kv_head * kv.v_dim + d];
  return out;
}

} // namespace

void naive_attention(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::AttentionParams>(op.params);
  const core::KvLayer& kv = naive.program().kv_layers[p.layer];
  naive.for_rows(op, [&](size_t t) {
    const std::vector<Naive::Cached>& history = naive.history(p.layer, naive.stream(t));
    const int64_t end = naive.batch().positions[t] + 1;
    const int64_t first = p.window > 0 ? std::max<int64_t>(0, end - p.window) : 0;
    Naive::Row y;
    for (int64_t h = 0; h < p.heads; ++h) {
      const Naive::Row head =
          attend(naive.in(op, 0, t).data() + h * kv.k_dim, history, first, end, kv, h / (p.heads / kv.heads), p.scale);
      y.insert(y.end(), head.begin(), head.end());
    }
    return y;
  });
}

} // namespace ridge::tests
