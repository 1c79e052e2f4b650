// One row of logits in, one token out: biases, then the samplers in `order`, each filtering what is left. If
// is_usual(), nothing sorts the whole vocabulary or allocates per step.
#pragma once

#include "core/diffusion_params.h"
#include "core/repetitions.h"
#include "core/sampler_order.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ridge::core {

struct SamplerParams {
  float temp = 0.8f;              // 0: greedy (ties: the lowest id)
  int32_t top_k = 40;             // 0: all
  float typical_p = 1.0f;         // 1: all
  float top_p = 0.95f;            // 1: all
  float min_p = 0.05f;            // of the best probability; 0: all
  float repeat_penalty = 1.0f;    // divides positive, multiplies negative logits; 1: off
  float presence_penalty = 0.0f;  // subtracted once
  float frequency_penalty = 0.0f; // subtracted per occurrence
  int32_t repeat_last_n = 64;     // penalized tokens; 0: none, -1: all
  int64_t seed = -1;              // -1: random, see Sampler::seed()

  DiffusionParams diffusion; // for diffusion models

  DryParams dry;
  float top_n_sigma = -1.0f;          // deviations below the highest logit; 0 or less: all
  float xtc_probability = 0.0f;       // chance of removing all tokens above the threshold but the least probable
  float xtc_threshold = 0.1f;         // above 0.5: none
  float dynatemp_range = 0.0f;        // temp ± range, by entropy
  float dynatemp_exponent = 1.0f;     // of the entropy
  int32_t mirostat = 0;               // version, replaces all filters; 0: off
  float mirostat_tau = 5.0f;          // target surprise, bits
  float mirostat_eta = 0.1f;          // learning rate
  float adaptive_target = -1.0f;      // average drawn probability; below 0: off
  float adaptive_decay = 0.9f;        // weight of earlier tokens
  int32_t min_keep = 0;               // left by top-p, typical-p, min-p and XTC
  SamplerOrder order = usual_order(); // the others are off

  struct Bias {
    int32_t token;
    float bias;
  };
  std::vector<Bias> bias; // added to logits first
};

// Throws a usage Error that names flag, range and value.
void validate(const SamplerParams& params);
// Also rejects biases of tokens outside the vocabulary.
void validate(const SamplerParams& params, int64_t vocab);

// Whether only samplers that executors support are on, in the usual order.
bool is_usual(const SamplerParams& params);
// Switches off the samplers that `order` does not name.
SamplerParams without_unnamed(SamplerParams params);

[[noreturn]] void throw_unusable_logits();

// Allowed tokens, for example by a grammar.
class TokenMask {
 public:
  virtual ~TokenMask() = default;
  virtual bool allows(int32_t token) = 0;
  // Sets the logits of all other tokens to -infinity.
  virtual void apply(std::span<float> logits) = 0;
};

struct Candidate {
  int32_t token;
  float logit;       // after penalties, before temperature
  float probability; // of being drawn; sums to 1
};
inline bool better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

class Sampler {
 public:
  // `texts` must outlive this; null: no DRY breakers, no infill. Throws like validate().
  Sampler(const SamplerParams& params, int64_t vocab, const TokenTexts* texts = nullptr);

  // Picks a token without recording it. The mask is applied to the vocabulary only if it rejects the free choice.
  // Throws an Error if a logit is NaN or no token is possible.
  int32_t sample(std::span<const float> logits, TokenMask* mask = nullptr);

  // Records a token of prompt or answer.
  void accept(int32_t token);
  // Forgets accepted tokens and restarts the random numbers.
  void reset();

  // State for executors that sample in place of this.
  struct Recent {
    std::span<const int32_t> counts; // [vocab] counts of recent tokens
    std::span<const int32_t> ring;   // if repeat_last_n limits them
    size_t oldest;                   // once full
  };
  Recent recent() const { return {counts_, recent_, oldest_}; }
  uint64_t draws() const { return draws_; } // random numbers since reset()
  void accept_drawn(int32_t token);         // drawn with the next random number
  // Goes on where another sampler of these parameters and this vocabulary was. Throws Error if it cannot have been.
  void restore(const Recent& recent, uint64_t draws);

  // Without the samplers that `order` does not name.
  const SamplerParams& params() const { return params_; }
  // The last distribution. The first 64 (all, up to 256) are in descending order of probability.
  const std::vector<Candidate>& candidates() const { return candidates_; }
  // The seed in use, also if chosen randomly.
  uint64_t seed() const { return seed_; }

 private:
  void load(std::span<const float> logits);
  int32_t choose();
  int32_t choose_greedy();
  void collect(int32_t most);
  void keep_typical();
  void keep_top_p();
  void keep_min_p();
  float highest_logit() const;
  double weigh();
  template <class Before>
  void keep_mass(double mass, Before before);
  size_t draw(double total);

  // sampling/sampler_chain.cpp:
  void plan_chain();
  void run_chain();
  void run(SamplerKind kind);
  void scale_logits();
  float penalized(int32_t token, float logit) const;
  void penalize_candidates();
  void apply_dry_penalties();
  void keep_best(size_t count);
  void keep_near_highest();
  void exclude_top();
  void apply_temperature();
  void end_infill();
  void keep_by_mirostat();
  double apply_adaptive_p(double total);
  void learn(float probability);

  SamplerParams params_;
  uint64_t seed_ = 0;
  uint64_t draws_ = 0;
  std::vector<float> logits_;         // [vocab] after biases, penalties and mask
  std::vector<Candidate> candidates_; // capacity vocab
  std::vector<int32_t> counts_;       // [vocab] occurrences of recent tokens
  std::vector<int32_t> recent_;       // ring of the last repeat_last_n tokens
  size_t oldest_ = 0;                 // next overwritten entry, once full

  const TokenTexts* texts_;
  bool usual_, greedy_;
  float temperature_ = 1;                   // by which candidates' logits are still to be divided
  std::vector<SamplerKind> before_, chain_; // active samplers of the whole row, and of candidates
  std::optional<Repetitions> repetitions_;  // with DRY
  double surprise_ = 0;                     // mirostat's current limit, bits
  double adaptive_sum_ = 0, adaptive_weight_ = 0;
  struct Drawn { // for mirostat and adaptive-p, learned on accept()
    int32_t token = -1;
    float probability = 0;
  };
  Drawn drawn_;
};

} // namespace ridge::core
