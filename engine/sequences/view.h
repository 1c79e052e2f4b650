// A scheduler's state, for display.
#pragma once

#include "api/sequences.h"
#include "engine/sequences/shared_prefixes.h"

#include <span>

namespace ridge::engine {

// On the thread that runs steps.
api::Sequences describe_sequences(const Streams& streams, std::span<const SequencePointer> waiting,
                                  const SharedPrefixes& prefixes, int64_t context, double now);

} // namespace ridge::engine
