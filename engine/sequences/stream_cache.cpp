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

int64_t StreamCache::usable(std::span<const int32_t> tokens) const {
  const int64_t same = common(tokens);
  return snapshots_.needed() ? snapshots_.last_before(same) : same;
}

void StreamCache::take_over(const StreamCache& other, int64_t count) {
  const int64_t same = other.common(tokens_);
  executor_.copy_cache(other.stream_, stream_, count);
  tokens_.assign(other.tokens_.begin(), other.tokens_.begin() + count);
  if (!snapshots_.needed()) return;
  snapshots_.adopt(executor_, count, other.snapshots_.at(count), same);
  state_position_ = count;
}

// The first position whose rows the executor still has; it keeps those of all that follow.
int64_t StreamCache::first_kept() const { return 0; }

void StreamCache::save(PrefixStore& store) {
  if (first_kept() > 0) return;
  if (state_position_ == size()) snapshots_.save(executor_, size());
  const int64_t end = snapshots_.needed() ? snapshots_.last_before(size()) : size();
  store.insert(std::span(tokens_).first(end), snapshots_.all(),
               [&](int64_t first, std::span<const PrefixBlock> blocks) {
                 std::vector<std::byte*> bytes;
                 for (const PrefixBlock& block : blocks) bytes.push_back(block.get());
                 executor_.save_blocks(stream_, first, bytes);
               });
}

void StreamCache::load(std::span<const int32_t> tokens, const PrefixStore::Start& start) {
  const int64_t same = common(tokens.first(start.tokens)), first = same / block_positions_;
  std::vector<const std::byte*> bytes;
  for (size_t i = first; i < start.blocks.size(); ++i) bytes.push_back(start.blocks[i].get());
  if (executor_.block_bytes() > 0) executor_.load_blocks(stream_, first, bytes);
  tokens_.assign(tokens.begin(), tokens.begin() + start.tokens);
  if (!snapshots_.needed()) return;
  snapshots_.adopt(executor_, start.tokens, start.state, same);
  state_position_ = start.tokens;
}

int64_t StreamCache::next_piece(std::span<const int32_t> prompt, int64_t most) {
  const int64_t count = std::min(most, std::ssize(prompt) - size());
  if (!snapshots_.needed()) return count;
  const bool last = size() + 1 == std::ssize(prompt);
  if (last || wanted_copies_.contains(size()) || size() - snapshots_.last() >= kSnapshotTokens)
    snapshots_.save(executor_, size());
  wanted_copies_.erase(wanted_copies_.begin(), wanted_copies_.upper_bound(size()));
  if (!wanted_copies_.empty() && *wanted_copies_.begin() < size() + count) return *wanted_copies_.begin() - size();
  return count > 1 && size() + count == std::ssize(prompt) ? count - 1 : count;
}

void StreamCache::evaluated(std::span<const int32_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  state_position_ = size();
}

void StreamCache::keep(int64_t count) { tokens_.resize(std::min(size(), count)); }

} // namespace ridge::engine
