#include "engine/speculation/ngram_drafter.h"

#include "core/random.h"

#include <algorithm>
#include <utility>

namespace ridge::engine {
namespace {

constexpr int64_t kGram = 2;
constexpr int64_t kPlaces = 16;
constexpr int64_t kLongestMatch = 64; // tokens; longer ones are no better

uint64_t hash_of(std::span<const int32_t> gram) {
  uint64_t hash = 0;
  for (const int32_t token : gram) hash = core::mix_bits(hash + static_cast<uint32_t>(token) + 1);
  return hash;
}

int kind_of_match(int64_t length) {
  constexpr int64_t kLongest[] = {2, 3, 4, 6, 9, 15, 31};
  return static_cast<int>(std::ranges::lower_bound(kLongest, length) - kLongest);
}

} // namespace

void NgramDrafter::begin(std::span<const int32_t> tokens) {
  const size_t same = std::ranges::mismatch(tokens_, tokens).in1 - tokens_.begin();
  if (same < tokens_.size()) { // otherwise removed places would stay in the chains
    tokens_.clear();
    before_.clear();
    last_.clear();
  }
  index(tokens);
}

void NgramDrafter::index(std::span<const int32_t> tokens) {
  while (tokens_.size() < tokens.size()) {
    tokens_.push_back(tokens[tokens_.size()]);
    int32_t before = -1;
    if (std::ssize(tokens_) >= kGram) {
      const auto place = static_cast<int32_t>(tokens_.size()) - 1;
      const auto [at, is_new] = last_.try_emplace(hash_of(std::span(tokens_).last(kGram)), place);
      if (!is_new) before = std::exchange(at->second, place);
    }
    before_.push_back(before);
  }
}

int64_t NgramDrafter::match_length(int64_t end) const {
  const int64_t last = std::ssize(tokens_) - 1;
  int64_t length = 0;
  while (length < kLongestMatch && length <= end && tokens_[end - length] == tokens_[last - length]) ++length;
  return length;
}

int NgramDrafter::prepare_draft(std::span<const int32_t> tokens) {
  index(tokens);
  follows_ = -1;
  int64_t longest = kGram - 1; // hashes may collide
  int64_t place = tokens_.empty() ? -1 : before_.back();
  for (int64_t i = 0; i < kPlaces && place >= 0 && longest < kLongestMatch; ++i, place = before_[place])
    if (const int64_t length = match_length(place); length > longest) longest = length, follows_ = place + 1;
  return follows_ < 0 ? -1 : kind_of_match(longest);
}

// In a repeating text it continues with its own draft.
std::vector<int32_t> NgramDrafter::draft(int64_t most) {
  std::vector<int32_t> guesses;
  for (int64_t at = follows_; std::ssize(guesses) < most; ++at)
    guesses.push_back(at < std::ssize(tokens_) ? tokens_[at] : guesses[at - std::ssize(tokens_)]);
  return guesses;
}

} // namespace ridge::engine
