#include "measure/divergence.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ridge::measure {
namespace {

// 0 instead of denormals, which take ten times as long.
float exponential(float x) { return x < -80 ? 0 : std::exp(x); }

struct Normalizer {
  float largest;
  int32_t argmax;
  double sum = 0;

  explicit Normalizer(std::span<const float> logits) : Normalizer(find_largest(logits)) {
    for (const float logit : logits) sum += exponential(logit - largest);
  }
  static Normalizer find_largest(std::span<const float> logits) {
    const auto argmax = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
    return {logits[argmax], argmax};
  }
  double log_probability(float logit) const { return static_cast<double>(logit) - largest - std::log(sum); }

 private:
  Normalizer(float largest, int32_t argmax) : largest(largest), argmax(argmax) {}
};

} // namespace

double quantile(std::span<const double> ascending, double q) {
  const double at = q * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, ascending.size() - 1);
  return ascending[below] + (at - static_cast<double>(below)) * (ascending[above] - ascending[below]);
}

Estimate mean_of(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  if (values.empty()) return {};
  const double mean = std::reduce(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return {mean, n > 1 ? std::sqrt(squares / (n - 1) / n) : 0};
}

double log_probability(std::span<const float> logits, int32_t token) {
  return Normalizer(logits).log_probability(logits[token]);
}

PositionScore compare(std::span<const float> logits, std::span<const float> reference, int32_t next) {
  Normalizer p = Normalizer::find_largest(reference), q = Normalizer::find_largest(logits);
  double weighted = 0; // Σ exp(reference - max) * (ln p - ln q), up to token-independent constants
  for (size_t i = 0; i < logits.size(); ++i) {
    const float share = exponential(reference[i] - p.largest);
    p.sum += share;
    q.sum += exponential(logits[i] - q.largest);
    weighted += share * (static_cast<double>(reference[i]) - logits[i]);
  }
  const double constants = (q.largest + std::log(q.sum)) - (p.largest + std::log(p.sum));
  return {q.log_probability(logits[next]), p.log_probability(reference[next]),
          std::max(0.0, weighted / p.sum + constants), p.argmax == q.argmax};
}

PositionScore compare(std::span<const float> logits, const TopDistribution& reference, int32_t next) {
  const Normalizer q(logits);
  double divergence = 0, named = 0;
  for (const auto& [id, log_p] : reference.top) {
    const double log_q = q.log_probability(logits[id]);
    divergence += std::exp(static_cast<double>(log_p)) * (log_p - log_q);
    named += std::exp(log_q);
  }
  if (const double tail = reference.tail_probability; tail > 0) {
    constexpr double kMin = 1e-12; // 1 - named may cancel to 0
    divergence += tail * std::log(tail / std::max(1 - named, kMin));
  }
  return {q.log_probability(logits[next]), reference.next_log_probability, std::max(0.0, divergence),
          !reference.top.empty() && reference.top[0].id == q.argmax};
}

TopDistribution reduce(std::span<const float> logits, int32_t next, std::span<TopDistribution::Entry> entries) {
  const Normalizer p(logits);
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  const auto middle = order.begin() + std::ssize(entries);
  std::nth_element(order.begin(), middle, order.end(), likelier);
  std::sort(order.begin(), middle, likelier);
  double tail = 0;
  for (auto it = middle; it != order.end(); ++it) tail += std::exp(logits[*it] - p.largest);
  for (size_t i = 0; i < entries.size(); ++i)
    entries[i] = {order[i], static_cast<float>(p.log_probability(logits[order[i]]))};
  return {static_cast<float>(p.log_probability(logits[next])), static_cast<float>(tail / p.sum), entries};
}

Estimate Perplexity::nats() const {
  if (count_ == 0) return {};
  const auto n = static_cast<double>(count_);
  const double mean = sum_ / n, variance = squares_ / n - mean * mean;
  return {mean, count_ > 1 && variance > 0 ? std::sqrt(variance / (n - 1)) : 0};
}

Estimate Perplexity::value() const {
  const Estimate e = nats();
  return {std::exp(e.value), std::exp(e.value) * e.error};
}

DivergenceReport report(std::span<const PositionScore> scores) {
  DivergenceReport r;
  r.positions = std::ssize(scores);
  if (scores.empty()) return r;
  Perplexity model, reference;
  std::vector<double> divergences, changes, ratios, same;
  double squares = 0;
  for (const PositionScore& s : scores) {
    model.add(s.log_probability);
    reference.add(s.reference_log_probability);
    divergences.push_back(s.divergence);
    ratios.push_back(s.reference_log_probability - s.log_probability);
    changes.push_back(std::exp(s.log_probability) - std::exp(s.reference_log_probability));
    same.push_back(s.same_top ? 1 : 0);
    squares += changes.back() * changes.back();
  }
  r.perplexity = model.value();
  r.reference_perplexity = reference.value();
  r.log_ratio = mean_of(ratios);
  r.divergence = mean_of(divergences);
  r.probability_change = mean_of(changes);
  r.probability_change_rms = std::sqrt(squares / static_cast<double>(scores.size()));
  r.same_top = mean_of(same);
  std::ranges::sort(divergences);
  r.divergence_max = divergences.back();
  r.divergence_99_9 = quantile(divergences, 0.999);
  r.divergence_99 = quantile(divergences, 0.99);
  r.divergence_95 = quantile(divergences, 0.95);
  r.divergence_median = quantile(divergences, 0.5);
  r.divergence_5 = quantile(divergences, 0.05);
  r.divergence_min = divergences.front();
  return r;
}

} // namespace ridge::measure
