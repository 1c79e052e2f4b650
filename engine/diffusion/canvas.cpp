#include "engine/diffusion/canvas.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace ridge::engine {
namespace {

using core::FillOrder;

struct Usual {
  std::string_view architecture;
  FillOrder order;
  int64_t block;
};
constexpr Usual kUsual[] = {
    {"llada", FillOrder::confidence, 32},
    {"llada-moe", FillOrder::confidence, 32},
    {"dream", FillOrder::entropy, 0},
    {"rnd1", FillOrder::entropy, 0},
};

} // namespace

Diffusion diffusion_of(const gguf::File& file, const core::DiffusionParams& params) {
  Diffusion how = {.params = params};
  const int64_t mask = file.get_int("tokenizer.ggml.mask_token_id", -1);
  if (mask < 0 || mask > INT32_MAX)
    throw_error("{}: tokenizer.ggml.mask_token_id is missing; a diffusion model needs it", file.path());
  how.mask = static_cast<int32_t>(mask);
  how.shifted = file.get_bool("diffusion.shift_logits", true);
  const auto usual = std::ranges::find(kUsual, file.get_string("general.architecture", ""), &Usual::architecture);
  const bool known = usual != std::end(kUsual);
  if (how.params.order == FillOrder::usual) how.params.order = known ? usual->order : FillOrder::confidence;
  if (how.params.block < 0) how.params.block = known ? usual->block : 0;
  return how;
}

double sureness(std::span<const float> logits, int32_t token, FillOrder order, double chance) {
  if (order == FillOrder::random) return chance;
  const float highest = *std::ranges::max_element(logits);
  double sum = 0, weighted = 0, second = 0;
  for (int64_t i = 0; i < std::ssize(logits); ++i) {
    const double less = static_cast<double>(logits[i]) - highest, share = std::exp(less);
    sum += share;
    if (share > 0) weighted += share * less;
    if (i != token) second = std::max(second, share);
  }
  const double own = std::exp(static_cast<double>(logits[token]) - highest);
  switch (order) {
  case FillOrder::margin: return (own - second) / sum;
  case FillOrder::entropy: return weighted / sum - std::log(sum); // negative entropy
  default: return own / sum;
  }
}

Canvas::Canvas(std::span<const int32_t> prompt, int64_t places, const Diffusion& how, uint64_t seed)
    : how_(how), prompt_(std::ssize(prompt)), block_(how.params.block > 0 ? how.params.block : places),
      tokens_(prompt.begin(), prompt.end()), choices_(places), random_(seed) {
  if (places < 1 || (how.shifted && prompt.empty())) throw std::logic_error("Canvas: nothing to fill in");
  tokens_.resize(prompt_ + places, how.mask);
  block_ = std::clamp<int64_t>(block_, 1, std::min(places, kMaxOpenPlaces));
  open_block();
}

void Canvas::open_block() {
  const int64_t places = std::ssize(choices_);
  begin_ = end_;
  end_ = std::min(places, begin_ + block_);
  const double share = static_cast<double>(end_ - begin_) / static_cast<double>(places);
  const int64_t steps = how_.params.steps > 0 ? std::llround(share * static_cast<double>(how_.params.steps)) : places;
  steps_left_ = std::clamp<int64_t>(steps, 1, end_ - begin_);
  open_.resize(end_ - begin_);
  std::iota(open_.begin(), open_.end(), begin_);
}

int64_t Canvas::first_open() const { return open_.empty() ? std::ssize(choices_) : open_.front(); }

std::vector<int32_t> Canvas::outputs() const {
  std::vector<int32_t> outputs;
  for (const int64_t place : open_) outputs.push_back(static_cast<int32_t>(prompt_ + place - (how_.shifted ? 1 : 0)));
  return outputs;
}

void Canvas::decide(std::vector<Guess> guesses) {
  std::vector<size_t> surest(guesses.size());
  std::iota(surest.begin(), surest.end(), size_t{0});
  std::ranges::stable_sort(surest, std::greater<>(), [&](size_t i) { return guesses[i].sureness; });
  const int64_t left = std::ssize(open_), count = (left + steps_left_ - 1) / steps_left_;
  --steps_left_;
  surest.resize(count);
  for (const size_t i : surest) {
    tokens_[prompt_ + open_[i]] = guesses[i].token;
    choices_[open_[i]] = std::move(guesses[i].choice);
  }
  decided_ += count;
  std::erase_if(open_, [&](int64_t place) { return is_decided(place); });
  if (open_.empty() && end_ < std::ssize(choices_)) open_block();
}

} // namespace ridge::engine
