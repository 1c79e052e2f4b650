// Perplexity and Kullback-Leibler divergence, in nats; double sums over f32 logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ridge::measure {

// Top tokens, the next token, and the total of the rest.
struct TopDistribution {
  struct Entry {
    int32_t id;
    float log_probability;
  };
  float next_log_probability = 0;
  float tail_probability = 0; // outside `top`
  std::span<const Entry> top; // descending
};

struct PositionScore {
  double log_probability = 0, reference_log_probability = 0; // of the next token
  double divergence = 0;                                     // KLD(reference ‖ model)
  bool same_top = false;
};

// Linearly interpolated; not empty.
double quantile(std::span<const double> ascending, double q);

double log_probability(std::span<const float> logits, int32_t token);
PositionScore compare(std::span<const float> logits, std::span<const float> reference, int32_t next);
// The tail counts as one token: a lower bound, exact if the tails are proportional.
PositionScore compare(std::span<const float> logits, const TopDistribution& reference, int32_t next);

// The likeliest tokens go to `entries`.
TopDistribution reduce(std::span<const float> logits, int32_t next, std::span<TopDistribution::Entry> entries);

struct Estimate {
  double value = 0, error = 0; // standard error of the mean
};
Estimate mean_of(std::span<const double> values);

class Perplexity {
 public:
  void add(double log_probability) {
    ++count_;
    sum_ -= log_probability;
    squares_ += log_probability * log_probability;
  }
  int64_t count() const { return count_; }
  Estimate nats() const;  // per token
  Estimate value() const; // exp(nats)
 private:
  int64_t count_ = 0;
  double sum_ = 0, squares_ = 0;
};

struct DivergenceReport {
  int64_t positions = 0;
  Estimate perplexity, reference_perplexity;
  Estimate log_ratio; // ln(PPL / PPL of the reference)
  Estimate divergence;
  double divergence_max = 0, divergence_99_9 = 0, divergence_99 = 0, divergence_95 = 0, divergence_median = 0,
         divergence_5 = 0, divergence_min = 0;
  Estimate same_top;           // share, 0 to 1
  Estimate probability_change; // Δp of the next token
  double probability_change_rms = 0;
};
DivergenceReport report(std::span<const PositionScore> scores);

} // namespace ridge::measure
