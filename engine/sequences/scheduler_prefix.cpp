// Prompts that begin alike are evaluated once: a stream takes over what another one has evaluated of its prompt, waits
// while another one reads it, or gets it from the prefix cache.
#include "engine/sequences/scheduler.h"

#include <algorithm>

namespace ridge::engine {
namespace {

// Copying a token's rows out of a stream is reckoned to take a quarter of evaluating it. Measured were 25 of 67 µs
// behind 32,000 tokens of an 8B on an H100, 0.3 of 8 ms behind 8,000 of a 0.6B on two CPU cores.
constexpr int64_t kCopiesPerEvaluation = 4;

int64_t common_length(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

std::span<const int32_t> sharable(std::span<const int32_t> prompt) {
  return prompt.first(prompt.size() - 1); // the last token's logits are wanted
}

} // namespace

int64_t Scheduler::stored(std::span<const int32_t> prompt) const {
  return prefixes_ ? prefixes_->usable(sharable(prompt)) : 0;
}

// For a stream that is about to read another text. Where copies fail, as they do when memory runs out, answers do not.
// Returns what exchange_prefixes() does.
int64_t Scheduler::use_prefixes(Stream& stream) {
  try {
    if (stream.sequence->evaluated_ == 0) return exchange_prefixes(stream);
    restore(stream);
  } catch (const std::exception& error) {
    stream.cache.keep(0); // what it holds is not certain
    give_up_prefixes(error.what());
  }
  return 0;
}

// What was preempted is evaluated again then.
void Scheduler::give_up_prefixes(const char* why) {
  prefixes_->give_up(why);
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& sequence : waiting_) sequence->evaluated_rows_.reset();
  }
  for (Stream& stream : streams_)
    if (stream.sequence) stream.sequence->evaluated_rows_.reset();
  prefixes_.reset();
  keeps_prefixes_ = false;
}

// What the stream would lose to this text is kept where that pays: all in front of it that the prefix cache does not
// have is copied, too. So a long conversation whose last answer changes a little is not copied for that.
void Scheduler::keep_lost(Stream& stream, std::span<const int32_t> text) {
  const int64_t size = stream.cache.size(), lost = size - stream.cache.common(text);
  if (lost > 0 && lost * kCopiesPerEvaluation >= size - prefixes_->common(stream.cache.tokens()))
    prefixes_->keep(stream.cache);
}

// What the stream would lose is kept, and all that its sequence had evaluated when it was preempted is there
// afterwards.
void Scheduler::restore(Stream& stream) {
  Sequence& sequence = *stream.sequence;
  const auto evaluated = sequence.marked().first(sequence.evaluated_);
  keep_lost(stream, evaluated);
  if (prefixes_->usable(evaluated) > stream.cache.usable(evaluated)) prefixes_->load(stream.cache, evaluated);
  sequence.evaluated_rows_.reset();
}

// What the stream would lose is kept, and what the prefix cache has more of the prompt than the streams is there
// afterwards. Returns the length of the longest prefix that a later prompt could share and that no stream holds yet; 0:
// there is none.
int64_t Scheduler::exchange_prefixes(Stream& stream) {
  const std::span<const int32_t> prompt = stream.sequence->marked_prompt(), tokens = sharable(prompt);
  keep_lost(stream, stream.sequence->reuses() ? prompt : std::span<const int32_t>());
  if (!stream.sequence->reuses()) return 0;
  int64_t present = 0, alike = prefixes_->common(tokens); // to start behind; evaluated by a stream
  for (const Stream& other : streams_) {
    present = std::max(present, other.cache.usable(tokens));
    alike = std::max(alike, other.cache.common(tokens));
  }
  const int64_t fetched = prefixes_->fetch(tokens, present), usable = prefixes_->usable(tokens);
  if (usable >= present + kWorthKeeping) {
    prefixes_->load(stream.cache, tokens);
    count_stored(*stream.sequence, usable, std::min(fetched, usable));
  }
  const std::scoped_lock lock(mutex_);
  counts_.stored_bytes = prefixes_->bytes();
  return alike >= std::max(present, usable) + kWorthKeeping ? alike : 0;
}

// Tokens of the prompt that need not be evaluated for it.
void Scheduler::count_cached(Sequence& sequence, int64_t tokens) {
  if (sequence.reads_again_) return;
  sequence.cached_ += tokens;
  const std::scoped_lock lock(mutex_);
  counts_.cached_tokens += tokens;
}

void Scheduler::count_stored(Sequence& sequence, int64_t tokens, int64_t from_disk) {
  sequence.stored_ = tokens;
  sequence.from_disk_ = from_disk;
  const std::scoped_lock lock(mutex_);
  counts_.stored_tokens += tokens;
  counts_.disk_tokens += from_disk;
}

// What all streams hold goes to the prefix cache, and that to its folder.
void Scheduler::keep_all(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  if (prefixes_ && prefixes_->outlives()) {
    try {
      for (Stream& stream : streams_) prefixes_->keep(stream.cache);
      prefixes_->write_all();
    } catch (const std::exception& error) {
      prefixes_->give_up(error.what());
    }
  }
  lock.lock();
  kept_ = true;
  changed_.notify_all();
}

// For the stream whose prompt is being read: takes over what any other has more of. Returns whether it should wait,
// because a sequence that came earlier is reading what both have in common.
bool Scheduler::shares_prefix(Stream& stream) {
  if (!stream.sequence->reuses()) return false;
  const std::span<const int32_t> tokens = sharable(stream.sequence->marked_text());
  Stream* longest = nullptr;
  int64_t most = stream.cache.size() + kWorthKeeping - 1;
  for (Stream& other : streams_)
    if (const int64_t common = &other == &stream ? 0 : other.cache.usable(tokens); common > most)
      longest = &other, most = common;
  bool waits = false;
  for (Stream& other : streams_) {
    if (!other.sequence || other.sequence->number_ >= stream.sequence->number_) continue;
    const int64_t common = common_length(other.sequence->marked_text(), tokens);
    if (other.cache.size() >= common || common <= most) continue;
    other.cache.want_copy(common);
    waits = true;
  }
  if (waits || !longest) return waits;
  const int64_t gained = most - stream.cache.size();
  stream.cache.take_over(longest->cache, most);
  count_cached(*stream.sequence, gained);
  return false;
}

} // namespace ridge::engine
