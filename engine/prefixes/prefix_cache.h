// An executor's prefix store and its files: keeps what streams lose to other prompts. Only the scheduler's thread uses
// it.
#pragma once

#include "core/executor.h"
#include "engine/prefixes/prefix_files.h"
#include "engine/prefixes/prefix_store.h"
#include "engine/prefixes/stream_cache.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ridge::engine {

struct PrefixSettings {
  int64_t bytes = 0;  // 0: no store
  std::string folder; // empty: no files
  int64_t folder_bytes = 0;
  std::string model;                                      // model_key
  std::function<void(const std::string& line)> warn = {}; // from any thread
  bool keeps_answers = false; // save rows when an answer ends, since streams' rows can be lost with another process
};

class PrefixCache {
 public:
  // Null without a store, or if the executor cannot copy caches. Both must outlive it. Throws Error if the folder
  // cannot be created.
  static std::unique_ptr<PrefixCache> make(core::Executor& executor, const core::Program& program,
                                           const PrefixSettings& settings);

  // Number of tokens in the longest stored prefix, and of those that a stream can start after.
  int64_t common(std::span<const int32_t> tokens) const { return store_.common(tokens); }
  int64_t usable(std::span<const int32_t> tokens) const { return store_.usable(tokens); }
  // Loads files that have more than `present` of the tokens. Returns how many more became usable.
  int64_t fetch(std::span<const int32_t> tokens, int64_t present);
  // Call between steps. Allocates memory that saving so many tokens of streams will need.
  void preallocate(int64_t tokens);
  void keep(StreamCache& stream) { stream.save(store_); }
  // The stream must hold at least one token. Null if there is no room.
  std::optional<PrefixStore::Hold> hold(StreamCache& stream);
  void load(StreamCache& stream, std::span<const int32_t> tokens) { stream.load(tokens, store_.find(tokens)); }
  bool keeps_answers() const { return keeps_answers_; }
  bool has_files() const { return files_.has_value(); }
  void write_all(); // blocks until files are written
  void miss(const char* why) const { warn_(fmt::format("the prefix cache lacks what the streams had last: {}", why)); }
  void give_up(const char* why) const { warn_(fmt::format("the prefix cache is now off: {}", why)); }
  int64_t bytes() const { return store_.bytes(); }
  void describe(api::Sequences& all) const { store_.describe(all); }

 private:
  PrefixCache(core::Executor& executor, const core::Program& program, const PrefixSettings& settings);

  core::Executor& executor_;
  const std::function<void(const std::string&)> warn_;
  const bool keeps_answers_;
  const PrefixStore::Shape shape_;
  PrefixStore store_;
  std::optional<PrefixFiles> files_;
};

} // namespace ridge::engine
