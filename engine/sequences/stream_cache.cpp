#include "engine/sequences/stream_cache.h"

#include "core/error.h"

#include <algorithm>

namespace ridge::engine {
namespace {

constexpr int64_t kSnapshotTokens = 4096; // of a prompt between copies of a recurrent state
// Between those of what windows see: hundreds of MB in large models, and turns have copies of their own.
constexpr int64_t kWindowSnapshotTokens = 16384;

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

int64_t StreamCache::reachable(int64_t position) const {
  return executor_.continues_at(stream_, position) ? position : snapshots_.last(position);
}

int64_t StreamCache::reachable(std::span<const int32_t> prompt) const { return reachable(common(prompt)); }

int64_t StreamCache::resume(std::span<const int32_t> prompt) {
  int64_t same = std::min(common(prompt), std::ssize(prompt) - 1);
  if (snapshots_.needed()) {
    // Conversations come back to where a turn ended: that is where resume() is called.
    if (!executor_.continues_at(stream_, same))
      same = snapshots_.restore(executor_, stream_, same);
    else if (recurrent_)
      snapshots_.save(executor_, same);
  }
  keep(same);
  return_later(same);
  return same;
}

void StreamCache::take_over(const StreamCache& other, int64_t count) {
  executor_.copy_cache(other.stream_, stream_, count);
  if (!executor_.continues_at(stream_, count)) other.snapshots_.restore(executor_, stream_, count);
  tokens_.assign(other.tokens_.begin(), other.tokens_.begin() + count);
  returns_.clear();
  return_later(count);
}

int64_t StreamCache::next_piece(std::span<const int32_t> prompt, int64_t most) {
  const int64_t count = std::min(most, std::ssize(prompt) - size());
  if (!snapshots_.needed()) return count;
  if (size() - snapshots_.last() >= (recurrent_ ? kSnapshotTokens : kWindowSnapshotTokens))
    snapshots_.save(executor_, size());
  return_later(std::ssize(prompt) - 1);
  if (!recurrent_) return count;
  if (size() + 1 == std::ssize(prompt)) snapshots_.save(executor_, size());
  return count > 1 && size() + count == std::ssize(prompt) ? count - 1 : count;
}

// A place to return to that is less than a going back away from the last one is reached from there.
void StreamCache::return_later(int64_t position) {
  if (!snapshots_.needed() || recurrent_) return;
  const int64_t last = returns_.empty() ? snapshots_.last() : returns_.back();
  if (position - last >= std::max<int64_t>(executor_.config().going_back, 1)) returns_.push_back(position);
}

void StreamCache::evaluated(std::span<const int32_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  // The next batch may overwrite what is seen from so far back.
  while (!returns_.empty() && size() - returns_.front() >= executor_.config().going_back) {
    snapshots_.save(executor_, returns_.front());
    returns_.erase(returns_.begin());
  }
}

void StreamCache::keep(int64_t count) {
  tokens_.resize(std::min(size(), count));
  snapshots_.drop_behind(size());
  std::erase_if(returns_, [this](int64_t position) { return position > size(); });
}

} // namespace ridge::engine
