// Which waiting sequence starts next, and on which stream.
#pragma once

#include "engine/sequences/streams.h"

#include <span>

namespace ridge::engine {

struct Start {
  SequencePointer sequence; // null: none can start
  int32_t stream = -1;      // stream to preempt; -1: one is free
  bool late = false;
};

// `step` numbers the last step. A sequence that waits for a certain stream holds up no other.
Start next_start(const TurnPolicy& turns, std::span<const SequencePointer> waiting, const Streams& streams,
                 uint64_t step, bool may_preempt);

// The free stream with the longest usable prefix of `text`. If that is short or the prefix cache has more
// (`elsewhere`), the least recently used one.
Stream& best_stream(Streams& streams, std::span<const int32_t> text, int64_t elsewhere);

Waiting waiting_of(const SequencePointer& sequence);

} // namespace ridge::engine
