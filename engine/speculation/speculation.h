// Which drafter the options ask for.
#pragma once

#include "core/requests.h"
#include "engine/loaded_model.h"
#include "engine/speculation/speculator.h"

#include <memory>

namespace ridge::engine {

// Throws Error (wrong usage) for options that contradict each other, before anything is loaded.
void check_speculation(const core::ModelOptions& options);

// executor_config(), with as many outputs as a step with guesses has.
core::ExecutorConfig generating_config(const core::ModelOptions& options, int64_t trained_context);

// Null where the options switch speculation off. Opens and starts the draft model, where the options name one; throws
// Error where it cannot run, or has another vocabulary than `model`.
std::unique_ptr<Speculator> make_speculator(const core::ModelOptions& options, const LoadedModel& model,
                                            const LoadSteps& steps);

} // namespace ridge::engine
