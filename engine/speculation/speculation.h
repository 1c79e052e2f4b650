// Which drafter the options ask for.
#pragma once

#include "core/requests.h"
#include "engine/loaded_model.h"
#include "engine/speculation/speculator.h"

#include <memory>

namespace ridge::engine {

// Throws Error (wrong usage) for options that contradict each other, before anything is loaded.
void check_speculation(const core::ModelOptions& options);

// Opens the model that the options name, or the one in `file`, to write text: with the draft heads of its file, where
// they are to guess. Throws Error where `--spec mtp` asks for heads that are not there or not supported.
LoadedModel open_generating(const core::ModelOptions& options, const LoadSteps& steps = {});
LoadedModel open_generating(gguf::File file, const core::ModelOptions& options, const LoadSteps& steps = {});

// An EAGLE-3 head in a file of its own, for the model in another. Throws Error where it is not that model's.
LoadedHead eagle_head(std::shared_ptr<const gguf::File> head, const gguf::File& model);
// Opens a model for these heads, which were made for its file. Throws Error where a head has another vocabulary.
LoadedModel open_with_heads(gguf::File file, std::vector<LoadedHead> heads);

// The draft heads that the options have guess: those of the file, the one that they name, or the guide's; without
// executors. Where heads of the file are not supported, none and a note; an Error where the options ask for them.
std::vector<LoadedHead> heads_to_use(const gguf::File& file, const core::ModelOptions& options,
                                     const LoadSteps& steps = {});

// executor_config(), with as many outputs as a step with guesses has; of a model that writes by diffusion, as many as a
// step decides, and whole texts at once.
core::ExecutorConfig generating_config(const core::ModelOptions& options, const core::Program& program);

// Null where the options switch speculation off. The draft heads of `model` guess, where it was opened with some; it
// must outlive the Speculator then. Opens and starts the draft model, where the options name one; throws
// Error where it cannot run, or has another vocabulary than `model`.
std::unique_ptr<Speculator> make_speculator(const core::ModelOptions& options, const LoadedModel& model,
                                            const LoadSteps& steps);

} // namespace ridge::engine
