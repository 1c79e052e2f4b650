// A text that a diffusion model fills in. Positions after the prompt start masked. Each step decides those masked
// positions of a block of which the model is surest.
#pragma once

#include "core/diffusion_params.h"
#include "core/token_choice.h"
#include "gguf/gguf.h"

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <vector>

namespace ridge::engine {

// Limit of the logits in one step.
inline constexpr int64_t kMaxOpenPlaces = 256;
inline constexpr int64_t kUsualPlaces = 256;

struct Diffusion {
  int32_t mask = 0;
  bool shifted = true; // the logits of a token predict the next position
  core::DiffusionParams params = {};
};
// Takes settings from `params`, else the file, else the makers' defaults. Throws Error for a file without a mask token.
Diffusion diffusion_of(const gguf::File& file, const core::DiffusionParams& params);

// Higher values are surer. `chance` is used by FillOrder::random.
double sureness(std::span<const float> logits, int32_t token, core::FillOrder order, double chance);

class Canvas {
 public:
  // With `shifted` the prompt must not be empty.
  Canvas(std::span<const int32_t> prompt, int64_t places, const Diffusion& how, uint64_t seed);

  std::span<const int32_t> tokens() const { return tokens_; }
  std::span<const int32_t> answer() const { return std::span(tokens_).subspan(prompt_); }
  bool is_decided(int64_t place) const { return tokens_[prompt_ + place] != how_.mask; }
  bool done() const { return decided_ == std::ssize(tokens_) - prompt_; }
  int64_t first_open() const;

  // Positions to decide next, and the tokens whose logits predict them.
  const std::vector<int64_t>& open() const { return open_; }
  std::vector<int32_t> outputs() const;

  struct Guess {
    int32_t token;
    double sureness;
    std::optional<core::TokenChoice> choice = {};
  };
  // Takes one guess for each of open(); decides the surest, distributed evenly over the remaining steps.
  void decide(std::vector<Guess> guesses);
  std::optional<core::TokenChoice>& choice(int64_t place) { return choices_[place]; }
  core::FillOrder order() const { return how_.params.order; }
  double chance() { return std::uniform_real_distribution<>()(random_); }

 private:
  void open_block();

  const Diffusion how_;
  const int64_t prompt_;
  int64_t block_;
  int64_t steps_left_ = 0;
  int64_t decided_ = 0, begin_ = 0, end_ = 0; // within the block
  std::vector<int32_t> tokens_;
  std::vector<std::optional<core::TokenChoice>> choices_;
  std::vector<int64_t> open_;
  std::mt19937_64 random_;
};

} // namespace ridge::engine
