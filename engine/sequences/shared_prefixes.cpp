#include "engine/sequences/shared_prefixes.h"

#include <algorithm>
#include <utility>

namespace ridge::engine {
namespace {

// Copying rows is assumed to cost a quarter of evaluating them. Measured: 25 of 67 µs after 32,000 tokens (8B, H100);
// 0.3 of 8 ms after 8,000 (0.6B, two CPU cores).
constexpr int64_t kCopiesPerEvaluation = 4;

int64_t common_length(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

std::span<const int32_t> sharable(std::span<const int32_t> prompt) {
  return prompt.first(prompt.size() - 1); // the last token's logits are needed
}

} // namespace

int64_t SharedPrefixes::usable(std::span<const int32_t> prompt) const {
  return cache_ && !prompt.empty() ? cache_->usable(sharable(prompt)) : 0;
}

SharedPrefixes::Loaded SharedPrefixes::load(Stream& stream) {
  if (!cache_) return {};
  try {
    if (stream.sequence->evaluated_ == 0) return exchange(stream);
    restore(stream);
  } catch (const std::exception& error) {
    stream.cache.keep(0); // its contents are uncertain
    give_up(error.what());
  }
  return {};
}

void SharedPrefixes::give_up(const char* why) {
  cache_->give_up(why);
  held_.clear();
  write_all();
  cache_.reset();
  on_ = false;
}

bool SharedPrefixes::hold(Stream& stream) {
  if (stream.cache.size() == 0) return true;
  try {
    auto rows = cache_->hold(stream.cache);
    if (rows) held_.insert_or_assign(stream.sequence.get(), std::move(*rows));
    return rows.has_value();
  } catch (const std::exception& error) {
    give_up(error.what());
    return false;
  }
}

// Saving also copies everything before it that the cache lacks, so a small change after a long conversation is not
// saved.
void SharedPrefixes::keep_lost(Stream& stream, std::span<const int32_t> text) {
  const int64_t size = stream.cache.size(), lost = size - stream.cache.common(text);
  if (lost > 0 && lost * kCopiesPerEvaluation >= size - cache_->common(stream.cache.tokens()))
    cache_->keep(stream.cache);
}

void SharedPrefixes::restore(Stream& stream) {
  const ScheduledSequence& sequence = *stream.sequence;
  const auto evaluated = sequence.marked().first(sequence.evaluated_);
  keep_lost(stream, evaluated);
  if (cache_->usable(evaluated) > stream.cache.usable(evaluated)) cache_->load(stream.cache, evaluated);
  release(sequence);
}

SharedPrefixes::Loaded SharedPrefixes::exchange(Stream& stream) {
  const std::span<const int32_t> prompt = stream.sequence->marked_prompt(), tokens = sharable(prompt);
  keep_lost(stream, stream.sequence->reuses() ? prompt : std::span<const int32_t>());
  if (!stream.sequence->reuses()) return {};
  int64_t present = 0, alike = cache_->common(tokens);
  for (const Stream& other : streams_) {
    present = std::max(present, other.cache.usable(tokens));
    alike = std::max(alike, other.cache.common(tokens));
  }
  Loaded loaded;
  const int64_t fetched = cache_->fetch(tokens, present), usable = cache_->usable(tokens);
  if (usable >= present + kWorthKeeping) {
    cache_->load(stream.cache, tokens);
    loaded = {usable, std::min(fetched, usable)};
  }
  if (alike >= std::max(present, usable) + kWorthKeeping) loaded.branch = alike;
  return loaded;
}

SharedPrefixes::Shared SharedPrefixes::share(Stream& stream) {
  if (!stream.sequence->reuses()) return {};
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
  if (waits || !longest) return {.waits = waits};
  const int64_t gained = most - stream.cache.size();
  stream.cache.take_over(longest->cache, most);
  return {.gained = gained};
}

void SharedPrefixes::preallocate() {
  if (!cache_) return;
  int64_t held = 0;
  for (const Stream& stream : streams_) held += stream.cache.size();
  try {
    cache_->preallocate(held);
  } catch (const std::exception& error) {
    give_up(error.what());
  }
}

void SharedPrefixes::keep_answers() {
  if (!cache_ || !cache_->keeps_answers()) return;
  try {
    for (Stream& stream : streams_)
      if (std::exchange(stream.answered, false)) cache_->keep(stream.cache);
  } catch (const std::exception& error) {
    cache_->miss(error.what());
  }
}

void SharedPrefixes::keep_all() {
  if (!cache_ || !cache_->has_files()) return;
  try {
    for (Stream& stream : streams_) cache_->keep(stream.cache);
  } catch (const std::exception& error) {
    cache_->miss(error.what());
  }
  write_all();
}

void SharedPrefixes::write_all() {
  try {
    cache_->write_all();
  } catch (const std::exception& error) {
    cache_->give_up(error.what());
  }
}

} // namespace ridge::engine
