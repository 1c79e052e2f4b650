#include "support/naive.h"

#include <algorithm>
#include <cmath>

namespace ridge::tests {
namespace {

// 2^(-b i / n) for the first n heads, n a power of two, then 2^(-b / 2 * (2 i + 1) / n).
double slope_of(const core::AttentionParams& params, int64_t head) {
  const double n = std::pow(2, std::floor(std::log2(params.heads))), i = static_cast<double>(head);
  if (i < n) return std::pow(2, -params.max_bias * (i + 1) / n);
  return std::pow(2, -params.max_bias / 2 * (2 * (i - n) + 1) / n);
}

// One head of the token at `position` over entries [first, last). `weights`: a sink per head, or biases by distance.
Naive::Row attend(const double* q, const std::vector<Naive::Cached>& history, int64_t position, int64_t first,
                  int64_t last, const core::KvLayer& kv, int64_t head, const core::AttentionParams& params,
                  const Naive::Row& weights) {
  const int64_t kv_head = head / (params.heads / kv.heads);
  Naive::Row score;
  for (int64_t pos = first; pos < last; ++pos) {
    double dot = 0;
    for (int64_t d = 0; d < kv.k_dim; ++d) dot += q[d] * history[pos].k[kv_head * kv.k_dim + d];
    dot *= params.scale;
    score.push_back(params.soft_cap > 0 ? params.soft_cap * std::tanh(dot / params.soft_cap) : dot);
    if (params.max_bias > 0) score.back() -= slope_of(params, head) * static_cast<double>(std::abs(position - pos));
    if (params.reach > 0) {
      const int64_t ahead = std::clamp(pos - position, -params.reach, params.reach);
      score.back() += weights[head * (2 * params.reach + 1) + params.reach + ahead];
    }
  }
  if (params.reach == 0 && !weights.empty()) score.push_back(weights[head]);
  const double largest = *std::max_element(score.begin(), score.end());
  double sum = 0;
  for (double& s : score) sum += s = std::exp(s - largest);
  Naive::Row out(kv.v_dim);
  for (int64_t pos = first; pos < last; ++pos)
    for (int64_t d = 0; d < kv.v_dim; ++d) out[d] += score[pos - first] / sum * history[pos].v[kv_head * kv.v_dim + d];
  return out;
}

} // namespace

void naive_attention(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::AttentionParams>(op.params);
  const core::KvLayer& kv = naive.program().kv_layers[p.layer];
  const Naive::Row weights = op.weights.empty() ? Naive::Row() : naive.weight_row(op.weights[0], 0);
  // The stream's end in this batch, whose keys are in the history.
  const auto end_of = [&](int32_t stream) {
    int64_t end = 0;
    for (size_t t = 0; t < naive.batch().tokens.size(); ++t)
      if (naive.stream(t) == stream) end = std::max<int64_t>(end, naive.batch().positions[t] + 1);
    return end;
  };
  const std::span<const int32_t> block_ends = naive.batch().block_ends;
  // First position of the token's block: preceding tokens with the same end.
  const auto block_first = [&](size_t t) {
    const int32_t end = block_ends[t];
    while (t > 0 && block_ends[t - 1] == end && naive.stream(t - 1) == naive.stream(t)) --t;
    return static_cast<int64_t>(naive.batch().positions[t]);
  };
  naive.for_rows(op, [&](size_t t) {
    const std::vector<Naive::Cached>& history = naive.history(p.layer, naive.stream(t));
    const int64_t position = naive.batch().positions[t], half = p.window > 0 ? p.window : INT32_MAX;
    int64_t first = p.first_seen(position);
    int64_t last = p.causal ? position + 1 : std::min(end_of(naive.stream(t)), position + half);
    if (!block_ends.empty() && block_ends[t] > 0 && (p.in_blocks || (p.causal && p.block_ahead))) last = block_ends[t];
    if (p.in_blocks) first = block_first(t);
    Naive::Row y;
    for (int64_t h = 0; h < p.heads; ++h) {
      const Naive::Row head =
          attend(naive.in(op, 0, t).data() + h * kv.k_dim, history, position, first, last, kv, h, p, weights);
      y.insert(y.end(), head.begin(), head.end());
    }
    return y;
  });
}

} // namespace ridge::tests
