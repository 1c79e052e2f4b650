#include "engine/sequences/stream_cache.h"

#include "core/error.h"

#include <algorithm>

namespace ridge::engine {
namespace {

constexpr int64_t kSnapshotTokens = 4096; // of a prompt between copies of a recurrent state

} // namespace

void check_prompt(std::span<const int32_t> prompt, int64_t context, int64_t vocab) {
  if (prompt.empty()) throw_error("the prompt is empty: there is nothing to evaluate");
  if (std::ssize(prompt) > context)
    throw_error("the prompt has {} tokens, the context holds {}: shorten it or raise -c", prompt.size(), context);
  for (const int32_t token : prompt)
    if (token < 0 || token >= vocab) throw_error("token {} is outside the vocabulary (0 to {})", token, vocab - 1);
}

int64_t StreamCache::common(std::span<const int32_t> prompt) const {
  return std::ranges::mismatch(tokens_, prompt).in1 - tokens_.begin();
}

int64_t StreamCache::resume(std::span<const int32_t> prompt) {
  int64_t same = std::min(common(prompt), std::ssize(prompt) - 1);
  if (snapshots_.needed()) {
    // Conversations come back to where a turn ended: that is where resume() is called.
    if (same == state_position_)
      snapshots_.save(executor_, same);
    else
      same = snapshots_.restore(executor_, same);
    state_position_ = same;
  }
  tokens_.resize(same);
  return same;
}

void StreamCache::take_over(const StreamCache& other, int64_t count) {
  executor_.copy_cache(other.stream_, stream_, count);
  tokens_.assign(other.tokens_.begin(), other.tokens_.begin() + count);
}

int64_t StreamCache::next_piece(std::span<const int32_t> prompt, int64_t most) {
  const int64_t count = std::min(most, std::ssize(prompt) - size());
  if (!snapshots_.needed()) return count;
  const bool last = size() + 1 == std::ssize(prompt);
  if (last || size() - snapshots_.last() >= kSnapshotTokens) snapshots_.save(executor_, size());
  return count > 1 && size() + count == std::ssize(prompt) ? count - 1 : count;
}

void StreamCache::evaluated(std::span<const int32_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  state_position_ = size();
}

void StreamCache::keep(int64_t count) { tokens_.resize(std::min(size(), count)); }

} // namespace ridge::engine
