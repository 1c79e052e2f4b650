#include "convert/attention_shares.h"

#include "convert/tuning/products.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ridge::convert {
void add_attention_shares(const core::AttentionParams& params, const core::KvLayer& kv, std::span<const float> q,
                          std::span<const float> k, std::span<const float> sinks, std::span<float> received) {
  const int64_t tokens = std::ssize(received), group = params.heads / kv.heads;
  std::vector<float> of_heads(static_cast<size_t>(params.heads * tokens)); // summed in order: alike for all threads
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t head = 0; head < params.heads; ++head) {
    const float slope = params.max_bias > 0
                            ? core::alibi_slope(params.max_bias, static_cast<int>(params.heads), static_cast<int>(head))
                            : 0.0f;
    float* sums = &of_heads[head * tokens];
    std::vector<float> share(static_cast<size_t>(tokens));
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t first = params.first_seen(t), end = std::min(tokens, params.end_seen(t, tokens));
      const float* query = &q[(t * params.heads + head) * kv.k_dim];
      float largest = sinks.empty() ? -INFINITY : sinks[head];
      for (int64_t at = first; at < end; ++at) {
        float score = params.scale * tuning::dot(query, &k[(at * kv.heads + head / group) * kv.k_dim], kv.k_dim);
        if (params.soft_cap > 0) score = params.soft_cap * std::tanh(score / params.soft_cap);
        share[at] = score - slope * static_cast<float>(std::abs(t - at));
        largest = std::max(largest, share[at]);
      }
      float sum = sinks.empty() ? 0.0f : std::exp(sinks[head] - largest);
      for (int64_t at = first; at < end; ++at) sum += share[at] = std::exp(share[at] - largest);
      for (int64_t at = first; at < end; ++at) sums[at] += share[at] / sum;
    }
  }
  for (int64_t head = 0; head < params.heads; ++head)
    for (int64_t t = 0; t < tokens; ++t) received[t] += of_heads[head * tokens + t] / static_cast<float>(params.heads);
}

} // namespace ridge::convert
