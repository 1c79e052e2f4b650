#include "engine/prefixes/stream_cache.h"

#include "core/error.h"

#include <algorithm>
#include <iterator>

namespace ridge::engine {
namespace {

constexpr int64_t kSnapshotTokens = 4096; // distance of recurrent-state copies
// Copies of windows take hundreds of MB in large models. Ends of turns get copies in any case.
constexpr int64_t kWindowSnapshotTokens = 16384;

} // namespace

void check_prompt(std::span<const int32_t> prompt, int64_t context, int64_t vocab, const TextPictures& pictures) {
  if (prompt.empty()) throw_error("the prompt is empty: nothing to evaluate");
  if (std::ssize(prompt) > context) throw PromptTooLong(std::ssize(prompt), context);
  for (int64_t i = 0; i < std::ssize(prompt); ++i)
    if (const int32_t token = prompt[i]; (token < 0 || token >= vocab) && !pictures.at(i))
      throw_error("token {} is outside the vocabulary (0 to {})", token, vocab - 1);
}

int64_t StreamCache::common(std::span<const int32_t> prompt) const {
  return std::ranges::mismatch(tokens_, prompt).in1 - tokens_.begin();
}

int64_t StreamCache::usable(std::span<const int32_t> tokens) const {
  const int64_t same = common(tokens);
  return executor_.can_resume_at(stream_, same) ? same : snapshots_.last_before(same);
}

int64_t StreamCache::resume(std::span<const int32_t> prompt) {
  const int64_t same = usable(prompt.first(prompt.size() - 1));
  const bool continues = executor_.can_resume_at(stream_, same);
  if (!continues) snapshots_.load(executor_, same);
  keep(same);
  if (continues && recurrent_) snapshots_.save(executor_, same);
  want_distant_copy(same);
  return same;
}

void StreamCache::take_over(StreamCache& other, int64_t count) {
  keep(other.common(tokens_));
  executor_.copy_cache(other.stream_, stream_, count);
  tokens_.assign(other.tokens_.begin(), other.tokens_.begin() + count);
  if (!executor_.can_resume_at(stream_, count)) snapshots_.adopt(executor_, count, other.copy_of(count));
  want_distant_copy(count);
}

void StreamCache::save(PrefixStore& store, int64_t least) {
  copy_before(size() + 1);
  copy_of(size());
  const int64_t end = snapshots_.needed() ? snapshots_.last_before(size()) : size();
  const auto fill = [&](int64_t first, std::span<const PrefixBlock> blocks) {
    std::vector<std::byte*> bytes;
    for (const PrefixBlock& block : blocks) bytes.push_back(block.get());
    executor_.save_blocks(stream_, first, bytes);
  };
  store.insert(std::span(tokens_).first(end), snapshots_.all(), fill, least);
}

void StreamCache::load(std::span<const int32_t> tokens, const PrefixStore::Start& start) {
  const int64_t same = common(tokens.first(start.tokens)), first = same / block_positions_;
  std::vector<const std::byte*> bytes;
  for (size_t i = first; i < start.blocks.size(); ++i) bytes.push_back(start.blocks[i].get());
  if (executor_.block_bytes() > 0) executor_.load_blocks(stream_, first, bytes);
  keep(same);
  tokens_.assign(tokens.begin(), tokens.begin() + start.tokens);
  if (snapshots_.needed()) snapshots_.adopt(executor_, start.tokens, start.state);
}

int64_t StreamCache::next_piece(std::span<const int32_t> prompt, int64_t most) {
  const int64_t count = std::min(most, std::ssize(prompt) - size());
  if (!snapshots_.needed()) return count;
  if (size() - snapshots_.last_before(size()) >= (recurrent_ ? kSnapshotTokens : kWindowSnapshotTokens))
    snapshots_.save(executor_, size());
  want_distant_copy(std::ssize(prompt) - 1);
  const auto next = wanted_copies_.upper_bound(size());
  return recurrent_ && next != wanted_copies_.end() ? std::min(count, *next - size()) : count;
}

void StreamCache::want_copy(int64_t position) {
  if (snapshots_.needed()) wanted_copies_.insert(position);
}

// Does nothing if a copy less than rewind_tokens before exists or is planned; the difference can be evaluated again.
void StreamCache::want_distant_copy(int64_t position) {
  const auto behind = wanted_copies_.upper_bound(position);
  const int64_t last = behind == wanted_copies_.begin() ? 0 : *std::prev(behind);
  const int64_t least = recurrent_ ? 1 : std::max<int64_t>(executor_.config().rewind_tokens, 1);
  if (position - std::max(last, snapshots_.last_before(position)) >= least) want_copy(position);
}

void StreamCache::copy_before(int64_t end) {
  while (!wanted_copies_.empty() && *wanted_copies_.begin() < end)
    copy_of(wanted_copies_.extract(wanted_copies_.begin()).value());
}

// Null if the stream cannot continue there.
PrefixState StreamCache::copy_of(int64_t position) {
  return executor_.can_resume_at(stream_, position) ? snapshots_.save(executor_, position) : snapshots_.at(position);
}

void StreamCache::evaluated(std::span<const int32_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  // The next batch may overwrite what windows saw rewind_tokens tokens before.
  copy_before(size() + 1 - (recurrent_ ? 0 : executor_.config().rewind_tokens));
}

void StreamCache::keep(int64_t count) {
  tokens_.resize(std::min(size(), count));
  snapshots_.drop_behind(size());
  wanted_copies_.erase(wanted_copies_.upper_bound(size()), wanted_copies_.end());
}

namespace {

constexpr int64_t kMaxBytes = int64_t{2} << 30; // a 27B hybrid's state has 150 MB
constexpr size_t kMax = 32, kMin = 2;

} // namespace

PrefixState StateSnapshots::save(core::Executor& executor, int64_t position) {
  if (!needed() || position == 0) return nullptr;
  if (PrefixState known = at(position)) return known;
  const std::shared_ptr<float> state = executor.make_state();
  executor.save_state(stream_, {state.get(), static_cast<size_t>(elements_)}, position);
  insert(position, state);
  return state;
}

void StateSnapshots::insert(int64_t position, PrefixState state) {
  snapshots_.insert(std::ranges::lower_bound(snapshots_, position, {}, &Snapshot::position),
                    {position, std::move(state)});
  const auto most =
      std::clamp(static_cast<size_t>(kMaxBytes / (elements_ * static_cast<int64_t>(sizeof(float)))), kMin, kMax);
  if (snapshots_.size() <= most) return;
  size_t least = 0;
  int64_t least_gap = INT64_MAX;
  for (size_t i = 0; i + 1 < snapshots_.size(); ++i) {
    const int64_t gap = snapshots_[i + 1].position - (i > 0 ? snapshots_[i - 1].position : 0);
    if (gap < least_gap) least = i, least_gap = gap;
  }
  snapshots_.erase(snapshots_.begin() + static_cast<std::ptrdiff_t>(least));
}

void StateSnapshots::drop_behind(int64_t position) {
  std::erase_if(snapshots_, [position](const Snapshot& snapshot) { return snapshot.position > position; });
}

int64_t StateSnapshots::last_before(int64_t position) const {
  const auto behind = std::ranges::upper_bound(snapshots_, position, {}, &Snapshot::position);
  return behind == snapshots_.begin() ? 0 : std::prev(behind)->position;
}

PrefixState StateSnapshots::at(int64_t position) const {
  const auto found = std::ranges::find(snapshots_, position, &Snapshot::position);
  return found == snapshots_.end() ? nullptr : found->state;
}

PrefixStates StateSnapshots::all() const {
  PrefixStates states;
  for (const Snapshot& snapshot : snapshots_) states.emplace(snapshot.position, snapshot.state);
  return states;
}

void StateSnapshots::adopt(core::Executor& executor, int64_t position, PrefixState state) {
  executor.load_state(stream_, floats(state), position);
  if (!at(position)) insert(position, std::move(state));
}

} // namespace ridge::engine
