// How well a model predicts a text, and how far it strays from another that read the same: perplexity, Kullback-Leibler
// divergence and what this field reports beside it. Everything in nats; sums in double over f32 logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ridge::measure {

// What a reference model said of one position, kept small: its likeliest tokens, the actual next token, and one number
// for all the others together.
struct TopDistribution {
  struct Entry {
    int32_t id;
    float log_probability;
  };
  float next_log_probability = 0;
  float tail_probability = 0; // of all tokens that `top` does not name
  std::span<const Entry> top; // likeliest first
};

// One position's comparison; `reference` is the model that counts as right.
struct PositionScore {
  double log_probability = 0, reference_log_probability = 0; // of the actual next token
  double divergence = 0;                                     // KLD(reference ‖ model), nats
  bool same_top = false;                                     // both find the same token likeliest
};

// A quantile of at least one ascending value, with linear interpolation between neighbours.
double quantile(std::span<const double> ascending, double q);

double log_probability(std::span<const float> logits, int32_t token);
PositionScore compare(std::span<const float> logits, std::span<const float> reference, int32_t next);
// The same against a compact reference: tokens of the tail count as one, so the divergence is a lower bound, exact
// where the two tails agree up to a factor.
PositionScore compare(std::span<const float> logits, const TopDistribution& reference, int32_t next);

// The `count` likeliest tokens of a distribution into `entries` (likeliest first), and the rest into the result.
TopDistribution reduce(std::span<const float> logits, int32_t next, std::span<TopDistribution::Entry> entries);

struct Estimate {
  double value = 0, error = 0; // error: standard error of the mean
};
Estimate mean_of(std::span<const double> values);

// Mean of negative log-likelihoods, and its exponential.
class Perplexity {
 public:
  void add(double log_probability) {
    ++count_;
    sum_ -= log_probability;
    squares_ += log_probability * log_probability;
  }
  int64_t count() const { return count_; }
  Estimate nats() const;  // per token
  Estimate value() const; // exp of it
 private:
  int64_t count_ = 0;
  double sum_ = 0, squares_ = 0;
};

// What many positions' comparisons amount to.
struct DivergenceReport {
  int64_t positions = 0;
  Estimate perplexity, reference_perplexity;
  Estimate log_ratio;  // mean of ln(PPL / PPL of the reference)
  Estimate divergence; // nats
  double divergence_max = 0, divergence_99_9 = 0, divergence_99 = 0, divergence_95 = 0, divergence_median = 0,
         divergence_5 = 0, divergence_min = 0;
  Estimate same_top;           // share, 0 to 1
  Estimate probability_change; // mean Δp of the actual next token
  double probability_change_rms = 0;
};
DivergenceReport report(std::span<const PositionScore> scores);

} // namespace ridge::measure
