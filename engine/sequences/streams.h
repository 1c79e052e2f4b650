// An executor's streams and the sequences on them. Only the scheduler's thread uses them.
#pragma once

#include "engine/prefixes/stream_cache.h"
#include "engine/sequences/scheduled_sequence.h"
#include "engine/sequences/turns.h"

#include <span>
#include <vector>

namespace ridge::engine {

struct Stream {
  int32_t number;
  StreamCache cache;
  SequencePointer sequence = nullptr; // null: it is free
  uint64_t last_used = 0;
  uint64_t started = 0; // the step before its sequence's first one
  Turn turn = {};
  bool answered = false; // since SharedPrefixes::keep_answers()
};
using Streams = std::vector<Stream>;

inline Streams make_streams(core::Executor& executor, const core::Program& program) {
  Streams streams;
  for (int32_t i = 0; i < executor.config().streams; ++i) streams.push_back({i, StreamCache(executor, program, i)});
  return streams;
}

// The stream of a sequence that runs alone; null: several run, or none.
inline Stream* sole_running(Streams& streams) {
  Stream* only = nullptr;
  for (Stream& stream : streams) {
    if (!stream.sequence) continue;
    if (only) return nullptr;
    only = &stream;
  }
  return only;
}

} // namespace ridge::engine
