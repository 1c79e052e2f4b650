// Chooses the drafter.
#pragma once

#include "api/requests.h"
#include "engine/loading/loaded_model.h"
#include "engine/speculation/speculator.h"

#include <memory>

namespace ridge::engine {

// Throws a usage Error for contradictory options, before loading.
void check_speculation(const api::ModelOptions& options);

// Includes draft heads if they are used. Throws Error if `--spec mtp` finds no supported heads.
LoadedModel open_generating(const api::ModelOptions& options, const LoadSteps& steps = {});
LoadedModel open_generating(gguf::File file, const api::ModelOptions& options, const LoadSteps& steps = {});

enum class Pictures : bool { no, yes };

// Throws Error if the head belongs to another model.
LoadedHead eagle_head(std::shared_ptr<const gguf::File> head, const gguf::File& model,
                      Pictures pictures = Pictures::no);
LoadedHead dflash_head(std::shared_ptr<const gguf::File> head, const gguf::File& model);
std::unique_ptr<Drafter> make_head_drafter(const LoadedModel& model); // which has heads and must outlive it
// Throws Error if vocabularies differ.
LoadedModel open_with_heads(gguf::File file, std::vector<LoadedHead> heads, Pictures pictures = Pictures::no);

// The file's heads, the named one, or the guide's, without executors. Unsupported heads give a note, or an Error if the
// options require them.
std::vector<LoadedHead> heads_to_use(const gguf::File& file, const api::ModelOptions& options,
                                     const LoadSteps& steps = {});

// Adds outputs for drafts. A diffusion model gets a step's outputs and batches of whole texts.
core::ExecutorConfig generating_config(const api::ModelOptions& options, const core::Program& program);

// Null if speculation is off. Uses the heads of `model`, which must then outlive it, or starts the draft model. Throws
// Error if that cannot run or has another vocabulary.
std::unique_ptr<Speculator> make_speculator(const api::ModelOptions& options, const LoadedModel& model,
                                            const LoadSteps& steps);

} // namespace ridge::engine
