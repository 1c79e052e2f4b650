// The prefix store of an executor's streams, and the files behind it: what streams have evaluated is kept when they
// turn to other prompts, and comes back when a prompt begins so. The scheduler's thread uses it.
#pragma once

#include "core/executor.h"
#include "engine/prefixes/prefix_files.h"
#include "engine/prefixes/prefix_store.h"
#include "engine/sequences/stream_cache.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ridge::engine {

struct PrefixSettings {
  int64_t bytes = 0;  // of host memory; 0: no store
  std::string folder; // where parts outlive the program; empty: nowhere
  int64_t folder_bytes = 0;
  std::string model;                                      // what says which model it is (model_key)
  std::function<void(const std::string& line)> warn = {}; // from any thread
};

class PrefixCache {
 public:
  // Null where there is no store, or the executor cannot copy its caches. Both must outlive it. Throws Error where the
  // folder cannot be made.
  static std::unique_ptr<PrefixCache> make(core::Executor& executor, const core::Program& program,
                                           const PrefixSettings& settings);

  // How many of these tokens a text in the store begins with, and behind how many the store can start a stream.
  int64_t common(std::span<const int32_t> tokens) const { return store_.common(tokens); }
  int64_t usable(std::span<const int32_t> tokens) const { return store_.usable(tokens); }
  // Brings what files have of these tokens into the store, where that is more than `present`. Returns how many tokens
  // more can be started behind.
  int64_t fetch(std::span<const int32_t> tokens, int64_t present);
  // Between steps. Streams hold so many tokens, which may be kept soon: memory for them is got meanwhile.
  void expect(int64_t tokens);
  void keep(StreamCache& stream) { stream.save(store_); }
  // Keeps all that the stream holds, at least one token, until the Hold goes. Nothing where there is no room for it.
  std::optional<PrefixStore::Hold> hold(StreamCache& stream);
  void load(StreamCache& stream, std::span<const int32_t> tokens) { stream.load(tokens, store_.find(tokens)); }
  bool outlives() const { return files_.has_value(); }
  void write_all(); // to files, what is not there yet; waits until it is
  void give_up(const char* why) const { warn_(fmt::format("prompts are no longer kept: {}", why)); }
  int64_t bytes() const { return store_.bytes(); }
  void describe(core::Sequences& all) const { store_.describe(all); }

 private:
  PrefixCache(core::Executor& executor, const core::Program& program, const PrefixSettings& settings);

  core::Executor& executor_;
  const std::function<void(const std::string&)> warn_;
  const PrefixStore::Shape shape_;
  PrefixStore store_;
  std::optional<PrefixFiles> files_;
};

} // namespace ridge::engine
