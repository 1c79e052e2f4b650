// The sampler chain: one row of logits in, one token out.
// Biases come first, then the samplers in an order that may be chosen; the usual one (usual_order()) is the field's.
// Each filter sees the distribution that the one before it left over. In the usual order without the samplers that few
// people use (is_usual()), nothing sorts the whole vocabulary and nothing allocates per step.
#pragma once

#include "core/sampling/diffusion_params.h"
#include "core/sampling/repetitions.h"
#include "core/sampling/sampler_order.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ridge::core {

struct SamplerParams {
  float temp = 0.8f;              // 0: greedy (the highest logit after biases, penalties and mask; ties: the lowest id)
  int32_t top_k = 40;             // keep the k highest logits; 0: all
  float typical_p = 1.0f;         // keep the most typical tokens of this mass; 1: all
  float top_p = 0.95f;            // keep the most probable tokens of this mass; 1: all
  float min_p = 0.05f;            // keep tokens at least this fraction as probable as the best; 0: all
  float repeat_penalty = 1.0f;    // divides positive and multiplies negative logits of recent tokens; 1: off
  float presence_penalty = 0.0f;  // subtracted once from the logit of a recent token
  float frequency_penalty = 0.0f; // subtracted once per occurrence
  int32_t repeat_last_n = 64;     // how many tokens are recent; 0: none, -1: all
  int64_t seed = -1;              // -1: a fresh one, see Sampler::seed()

  DiffusionParams diffusion; // of models that write so

  DryParams dry;
  float top_n_sigma = -1.0f;          // keep logits within so many standard deviations of the highest; 0 or less: all
  float xtc_probability = 0.0f;       // of removing, at a step, all but the least of the tokens above the threshold
  float xtc_threshold = 0.1f;         // above 0.5: none
  float dynatemp_range = 0.0f;        // the temperature is so much lower where one token is sure, higher where none is
  float dynatemp_exponent = 1.0f;     // how the temperature grows with the entropy
  int32_t mirostat = 0;               // 1, 2: its versions, which take the place of all filters; 0: off
  float mirostat_tau = 5.0f;          // the surprise that it holds tokens to, bits
  float mirostat_eta = 0.1f;          // how fast it learns
  float adaptive_target = -1.0f;      // the probability that drawn tokens are to have on average; below 0: off
  float adaptive_decay = 0.9f;        // how long earlier tokens count
  int32_t min_keep = 0;               // top-p, typical-p, min-p and XTC leave at least so many tokens
  SamplerOrder order = usual_order(); // those that are not in it are off

  struct Bias {
    int32_t token;
    float bias;
  };
  std::vector<Bias> bias; // added to the logits of these tokens, before anything else
};

// Throws an Error (wrong usage) that names the flag, its range and the value given.
void validate(const SamplerParams& params);
// The same for a model with `vocab` tokens; also for a bias of a token that is none of them.
void validate(const SamplerParams& params, int64_t vocab);

// Whether the samplers that are on are those that executors may have, too, and run in the usual order.
bool is_usual(const SamplerParams& params);
// The same, with the samplers off that its order does not name.
SamplerParams without_unnamed(SamplerParams params);

// Throws the Error for logits from which no token can be chosen.
[[noreturn]] void throw_unusable_logits();

// Which tokens may come next, for example by a grammar.
class TokenMask {
 public:
  virtual ~TokenMask() = default;
  virtual bool allows(int32_t token) = 0;
  // Sets the logit of every token that is not allowed to -infinity. logits: [vocab].
  virtual void apply(std::span<float> logits) = 0;
};

struct Candidate {
  int32_t token;
  float logit;       // after penalties, before temperature
  float probability; // of having been drawn; all candidates together: 1
};
inline bool better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

class Sampler {
 public:
  // vocab: the length of every row of logits. `texts` must outlive it; null: DRY knows no breakers, and infill is off.
  // Throws what validate() throws.
  Sampler(const SamplerParams& params, int64_t vocab, const TokenTexts* texts = nullptr);

  // Picks the next token. The token is not remembered until accept(). With a mask, the free choice is tried first and
  // all of the vocabulary is masked only if the mask refuses it, so an agreeing model pays for one token's check.
  // Throws an Error if a logit is NaN or if no token is possible.
  int32_t sample(std::span<const float> logits, TokenMask* mask = nullptr);

  // Adds a token, of the prompt or of the answer, to what the penalties count.
  void accept(int32_t token);
  // Forgets all accepted tokens and starts the random numbers of the seed again.
  void reset();

  // The state that an executor needs to choose tokens in place of this sampler, and the report of its choices.
  struct Recent {
    std::span<const int32_t> counts; // [vocab] occurrences among the tokens that penalties count
    std::span<const int32_t> ring;   // those tokens, where only the last repeat_last_n count
    size_t oldest;                   // of the ring, once it is full
  };
  Recent recent() const { return {counts_, recent_, oldest_}; }
  uint64_t draws() const { return draws_; } // random numbers used since reset()
  void accept_drawn(int32_t token);         // accepts a token that was drawn with the next random number

  // As given, with what `order` does not name switched off.
  const SamplerParams& params() const { return params_; }
  // What the last token was drawn from. The first 64, and all of up to 256, are in descending order of probability.
  const std::vector<Candidate>& candidates() const { return candidates_; }
  // The seed in use: params().seed, or the one chosen in its place.
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

  // The chain in another order, or with other samplers (sampling/sampler_chain.cpp):
  void plan_chain();
  void run_chain();
  void run(SamplerKind kind);
  void scale_logits();
  float penalized(int32_t token, float logit) const;
  void penalize_candidates();
  void discourage_candidates();
  void keep_best(size_t count);
  void keep_near_highest();
  void exclude_top();
  void warm();
  void end_infill();
  void keep_by_mirostat();
  double favour_target(double total);
  void learn(float probability);

  SamplerParams params_;
  uint64_t seed_ = 0;
  uint64_t draws_ = 0;
  std::vector<float> logits_;         // [vocab] the row with biases, penalties and mask applied
  std::vector<Candidate> candidates_; // capacity vocab
  std::vector<int32_t> counts_;       // [vocab] occurrences among the recent tokens
  std::vector<int32_t> recent_;       // ring of the last repeat_last_n tokens
  size_t oldest_ = 0;                 // where the ring is overwritten next, once it is full

  const TokenTexts* texts_;
  bool usual_, greedy_;
  float temperature_ = 1;                   // by which the logits of candidates are still to be divided
  std::vector<SamplerKind> before_, chain_; // that are on: on the whole row, and on candidates
  std::optional<Repetitions> repetitions_;  // with DRY
  double surprise_ = 0;                     // that mirostat allows, bits
  double adaptive_sum_ = 0, adaptive_weight_ = 0;
  struct Drawn { // what mirostat and adaptive-p learn from, once the token is accepted
    int32_t token = -1;
    float probability = 0;
  };
  Drawn drawn_;
};

} // namespace ridge::core
