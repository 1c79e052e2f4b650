// Evaluates shared prefixes once: a stream copies the prefix from another one, waits while another one reads it, or
// loads it from the prefix cache. If copying to that or memory for it fails, it is given up, and answers continue
// without.
#pragma once

#include "engine/prefixes/prefix_cache.h"
#include "engine/sequences/streams.h"

#include <atomic>
#include <map>
#include <memory>
#include <span>

namespace ridge::engine {

class SharedPrefixes {
 public:
  // All must outlive it. Throws Error if the prefix folder cannot be created.
  SharedPrefixes(core::Executor& executor, const core::Program& program, const PrefixSettings& settings,
                 Streams& streams)
      : streams_(streams), cache_(PrefixCache::make(executor, program, settings)), on_(cache_ != nullptr) {}

  bool on() const { return on_; } // from any thread; false without a prefix cache
  int64_t bytes() const { return cache_ ? cache_->bytes() : 0; }
  void describe(api::Sequences& all) const {
    if (cache_) cache_->describe(all);
  }

  // How many tokens of the prompt the cache could give a stream.
  int64_t usable(std::span<const int32_t> prompt) const;
  // Call before the stream reads its sequence's text. Saves what the stream loses and loads what it lacks.
  struct Loaded {
    int64_t tokens = 0, from_disk = 0;
    int64_t branch = 0; // length of the longest prefix that a later prompt could share and no stream holds yet; 0: none
  };
  Loaded load(Stream& stream);
  // Keeps a preempted sequence's rows until load() or release(). Returns false if that fails.
  bool hold(Stream& stream);
  void release(const ScheduledSequence& sequence) { held_.erase(&sequence); }

  // Copies the prefix of another stream that has more of it. `waits`: an earlier sequence is reading the common prefix.
  struct Shared {
    bool waits = false;
    int64_t gained = 0;
  };
  Shared share(Stream& stream);

  void preallocate();
  // Keeps ended sequences' rows where they can be lost with another process.
  void keep_answers();
  void keep_all(); // blocks until files are written

 private:
  Loaded exchange(Stream& stream);
  void restore(Stream& stream);
  void keep_lost(Stream& stream, std::span<const int32_t> text);
  void give_up(const char* why);
  void write_all();

  Streams& streams_;
  std::unique_ptr<PrefixCache> cache_;
  std::atomic<bool> on_;
  std::map<const ScheduledSequence*, PrefixStore::Hold> held_; // destroyed before the cache
};

} // namespace ridge::engine
