// DRY ("don't repeat yourself"): a penalty by the length of the passage that a token would repeat.
// https://github.com/oobabooga/text-generation-webui/pull/5677
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ridge::core {

// Token texts, for samplers.
class TokenTexts {
 public:
  virtual ~TokenTexts() = default;
  virtual std::string_view piece(int32_t token) const = 0; // bytes added to a text
  virtual bool ends(int32_t token) const = 0;              // is an end-of-generation token
  virtual int32_t end() const = 0;                         // usual one; -1: none
};

struct DryParams {
  float multiplier = 0.0f;                                    // 0: off
  float base = 1.75f;                                         // growth per repeated token
  int32_t allowed_length = 2;                                 // length at which the penalty is `multiplier`
  int32_t last_n = 64;                                        // tokens searched; 0: none, -1: all
  std::vector<std::string> breakers = {"\n", ":", "\"", "*"}; // texts that repetitions do not cross

  bool is_on() const { return multiplier != 0.0f && base >= 1.0f && last_n != 0; }
};

class Repetitions {
 public:
  struct Penalty {
    int32_t token;
    float value; // subtracted from the logit
  };

  // `texts` must outlive this; null: no breakers.
  Repetitions(DryParams params, const TokenTexts* texts) : params_(std::move(params)), texts_(texts) {}

  void accept(int32_t token);
  void reset();
  // One entry per token that would continue a repetition. Takes linear time.
  std::span<const Penalty> penalties();

 private:
  bool has_breaker(std::string_view text, size_t from) const;
  void match();

  DryParams params_;
  const TokenTexts* texts_;
  std::vector<int32_t> history_;
  std::string tail_;           // a breaker may begin here
  int64_t behind_breaker_ = 0; // tokens since the last breaker
  std::vector<int32_t> reversed_, matched_;
  std::vector<Penalty> penalties_;
};

} // namespace ridge::core
