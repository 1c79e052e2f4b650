// A text that a diffusion model fills in. Behind the prompt its places begin masked. The model sees the whole text, and
// each step decides some of the masked places of a block: those of which it is surest. Then it sees them, too.
#pragma once

#include "core/sampling/diffusion_params.h"
#include "core/sampling/token_choice.h"
#include "gguf/gguf.h"

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <vector>

namespace ridge::engine {

// What a step may have the logits of at most.
inline constexpr int64_t kMostOpenPlaces = 256;
// Places of an answer whose length was not given.
inline constexpr int64_t kUsualPlaces = 256;

// How a model's answers are filled in.
struct Diffusion {
  int32_t mask = 0;    // the token of places that are not decided
  bool shifted = true; // the logits of a token are those of the place behind it
  core::DiffusionParams params = {};
};
// As the file says, its makers, and `params` before them. Throws Error for a file that names no mask token.
Diffusion diffusion_of(const gguf::File& file, const core::DiffusionParams& params);

// How sure a row of logits is of a token, in the terms of an order; more is surer. `chance`: of FillOrder::random, a
// number at random.
double sureness(std::span<const float> logits, int32_t token, core::FillOrder order, double chance);

class Canvas {
 public:
  // `places` behind the prompt. With `shifted` the prompt must have a token at least.
  Canvas(std::span<const int32_t> prompt, int64_t places, const Diffusion& how, uint64_t seed);

  std::span<const int32_t> tokens() const { return tokens_; } // the whole text, with masks
  std::span<const int32_t> answer() const { return std::span(tokens_).subspan(prompt_); }
  bool is_decided(int64_t place) const { return tokens_[prompt_ + place] != how_.mask; }
  bool done() const { return decided_ == std::ssize(tokens_) - prompt_; }
  // How many places from the first one on are decided.
  int64_t first_open() const;

  // The places that the next step may decide, and the token of the text whose logits each has.
  const std::vector<int64_t>& open() const { return open_; }
  std::vector<int32_t> outputs() const;

  struct Guess {
    int32_t token;
    double sureness;
    std::optional<core::TokenChoice> choice = {}; // what else was likely
  };
  // A guess for each of open(). The surest become tokens of the text: as many as leave each further step as many.
  void decide(std::vector<Guess> guesses);
  std::optional<core::TokenChoice>& choice(int64_t place) { return choices_[place]; }
  core::FillOrder order() const { return how_.params.order; }
  double chance() { return std::uniform_real_distribution<>()(random_); }

 private:
  void open_block();

  const Diffusion how_;
  const int64_t prompt_;
  int64_t block_;                             // places of one
  int64_t steps_left_ = 0;                    // for the block
  int64_t decided_ = 0, begin_ = 0, end_ = 0; // of the block
  std::vector<int32_t> tokens_;
  std::vector<std::optional<core::TokenChoice>> choices_;
  std::vector<int64_t> open_;
  std::mt19937_64 random_;
};

} // namespace ridge::engine
