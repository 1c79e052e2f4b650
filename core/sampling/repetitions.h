// Finds what a text is about to repeat: the DRY penalty ("don't repeat yourself") of a token grows with the length of
// the earlier passage that the token would go on repeating.
// https://github.com/oobabooga/text-generation-webui/pull/5677
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ridge::core {

// The vocabulary as samplers see it that look at texts.
class TokenTexts {
 public:
  virtual ~TokenTexts() = default;
  virtual std::string_view piece(int32_t token) const = 0; // the bytes that a token adds to a text
  virtual bool ends(int32_t token) const = 0;              // an answer
  virtual int32_t end() const = 0;                         // the token that ends most answers; -1: none
};

struct DryParams {
  float multiplier = 0.0f;    // 0: off
  float base = 1.75f;         // the penalty grows so much with each token that is repeated
  int32_t allowed_length = 2; // a repetition of so many tokens begins to cost: `multiplier`
  int32_t last_n = -1;        // how many tokens are searched; 0: none, -1: all
  std::vector<std::string> breakers = {"\n", ":", "\"", "*"}; // texts over which no repetition is counted

  bool is_on() const { return multiplier != 0.0f && base >= 1.0f && last_n != 0; }
};

class Repetitions {
 public:
  struct Penalty {
    int32_t token;
    float value; // to be subtracted from the token's logit
  };

  // Without texts there are no breakers. They must outlive it.
  Repetitions(DryParams params, const TokenTexts* texts) : params_(std::move(params)), texts_(texts) {}

  void accept(int32_t token);
  void reset();
  // Visits each token that would go on with a repetition once. Takes a time in proportion to the text's length.
  std::span<const Penalty> penalties();

 private:
  bool has_breaker(std::string_view text, size_t from) const;
  void match();

  DryParams params_;
  const TokenTexts* texts_;
  std::vector<int32_t> history_;
  std::string tail_;           // of the text: a breaker may begin in it
  int64_t behind_breaker_ = 0; // tokens since the last breaker
  std::vector<int32_t> reversed_, matched_;
  std::vector<Penalty> penalties_;
};

} // namespace ridge::core
