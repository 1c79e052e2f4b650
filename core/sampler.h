// The sampler chain: one row of logits in, one token out.
// The order is the field's usual one: biases, penalties, top-k, typical-p, top-p, min-p, temperature, draw. Each filter
// sees the distribution that the one before it left over. Nothing sorts the whole vocabulary and nothing allocates per
// step.
#pragma once

#include <cstdint>
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

class Sampler {
 public:
  // vocab: the length of every row of logits. Throws what validate() throws.
  Sampler(const SamplerParams& params, int64_t vocab);

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

  // What the last token was drawn from. The first 64, and all of up to 256, are in descending order of probability.
  const std::vector<Candidate>& candidates() const { return candidates_; }
  const SamplerParams& params() const { return params_; }
  // The seed in use: params().seed, or the one chosen in its place.
  uint64_t seed() const { return seed_; }

 private:
  void load(std::span<const float> logits);
  int32_t choose();
  int32_t choose_greedy();
  void collect_top_k();
  void keep_typical();
  void keep_top_p();
  void keep_min_p();
  float highest_logit() const;
  double weigh(float temperature);
  template <class Before>
  void keep_mass(double mass, Before before);
  size_t draw(double total);

  SamplerParams params_;
  uint64_t seed_ = 0;
  uint64_t draws_ = 0;
  std::vector<float> logits_;         // [vocab] the row with biases, penalties and mask applied
  std::vector<Candidate> candidates_; // capacity vocab
  std::vector<int32_t> counts_;       // [vocab] occurrences among the recent tokens
  std::vector<int32_t> recent_;       // ring of the last repeat_last_n tokens
  size_t oldest_ = 0;                 // where the ring is overwritten next, once it is full
};

} // namespace ridge::core
