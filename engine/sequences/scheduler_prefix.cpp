// Prompts that begin alike are evaluated once: a stream takes over what another one has evaluated of its prompt, or
// waits while another one reads it.
#include "engine/sequences/scheduler.h"

#include <algorithm>

namespace ridge::engine {
namespace {

int64_t common_length(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

} // namespace

// Of the stream whose prompt is being read: takes over what any other has more of. Returns whether it should wait,
// because a sequence that came earlier is reading what both have in common.
bool Scheduler::shares_prefix(Stream& stream) {
  if (!core::shares_caches(program_)) return false;
  const std::span<const int32_t> prompt = stream.sequence->request_.prompt;
  const std::span<const int32_t> sharable = prompt.first(prompt.size() - 1); // the last token's logits are wanted
  const Stream* longest = nullptr;
  int64_t most = stream.cache.size() + kWorthKeeping - 1;
  for (const Stream& other : streams_)
    if (const int64_t there = &other == &stream ? 0 : other.cache.reachable(sharable); there > most)
      longest = &other, most = there;
  const bool waits = std::ranges::any_of(streams_, [&](const Stream& other) {
    if (!other.sequence || other.sequence->number_ >= stream.sequence->number_) return false;
    const int64_t common = common_length(other.sequence->request_.prompt, sharable);
    return other.cache.size() < common && common > most;
  });
  if (waits || !longest) return waits;
  const int64_t gained = most - stream.cache.size();
  stream.cache.take_over(longest->cache, most);
  stream.sequence->cached_ += gained;
  const std::scoped_lock lock(mutex_);
  counts_.cached_tokens += gained;
  return false;
}

} // namespace ridge::engine
