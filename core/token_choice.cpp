#include "core/token_choice.h"

namespace ridge::core {

TokenChoice describe_choice(std::span<const float> logits, int32_t token) {
  TokenChoice choice;
  choice.token = token;
  std::array<float, TokenChoice::kMax> best;
  best.fill(-INFINITY);
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > best.back())) continue;
    size_t at = best.size() - 1;
    for (; at > 0 && logits[i] > best[at - 1]; --at) {
      best[at] = best[at - 1];
      choice.top[at].token = choice.top[at - 1].token;
    }
    best[at] = logits[i];
    choice.top[at].token = static_cast<int32_t>(i);
  }
  double total = 0;
  for (const float logit : logits) total += std::exp(logit - best[0]);
  const double log_total = std::log(total);
  const auto log_share = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - best[0] - log_total);
  };
  for (size_t i = 0; i < best.size(); ++i)
    if (choice.top[i].token >= 0) choice.top[i].log_probability = log_share(best[i]);
  choice.log_probability = log_share(logits[token]);
  return choice;
}

TokenChoice describe_choice(std::span<const Candidate> candidates, int32_t token) {
  TokenChoice choice;
  choice.token = token;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const float log_probability = std::log(candidates[i].probability);
    if (i < choice.top.size()) choice.top[i] = {candidates[i].token, log_probability};
    if (candidates[i].token == token) choice.log_probability = log_probability;
  }
  return choice;
}

} // namespace ridge::core
