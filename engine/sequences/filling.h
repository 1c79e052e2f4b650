// Steps of diffusion models: each evaluates one whole text and decides some positions.
#pragma once

#include "engine/sequences/streams.h"

namespace ridge::engine {

// Throws Error for what a diffusion model cannot do, std::logic_error without a mask.
void check_filled(const SequenceRequest& request, const core::Program& program);

// Begins the sequence's canvas, if it has none. Returns false if the context has no room.
bool begin_canvas(ScheduledSequence& sequence, int64_t context);

// Evaluates the text and decides positions.
void fill_canvas(core::Executor& executor, const Stream& stream);

} // namespace ridge::engine
