// Models, tensors and blocks as the plain data that the window draws.
#pragma once

#include "core/view/snapshot.h"
#include "engine/loaded_model.h"

#include <functional>
#include <string>

namespace ridge::app {

// What the window shows of a model whose executor runs.
core::ModelFacts model_facts(const engine::LoadedModel& model);

core::Tokenized tokenize_for_display(const engine::LoadedModel& model, const std::string& text);

// The text of every token, made printable.
std::vector<std::string> display_vocabulary(const engine::LoadedModel& model);

// A scheduler's sequences, with texts for the prefixes.
core::Sequences with_texts(const engine::LoadedModel& model, core::Sequences sequences);

// What the next token moves, the cache holding `past` tokens.
std::vector<core::StepShare> step_shares(const engine::LoadedModel& model, int64_t past);

// Statistics of a tensor, then what each format would lose of it: publish is called with every format added, and
// returns false to stop. Throws Error where the file has no such tensor or it holds no weights.
void study_tensor(const gguf::File& file, const std::string& name,
                  const std::function<bool(const core::TensorStudy&)>& publish);

// One block of a tensor: as the file has it (format empty), or as `format` would pack it. Throws Error likewise, for
// formats without a bit layout and for blocks that there are not.
core::BlockStudy study_block(const gguf::File& file, const core::intent::StudyBlock& wanted);

// A piece of a tensor from the wanted row and column on. Throws Error likewise.
core::SliceStudy study_slice(const gguf::File& file, const core::intent::StudySlice& wanted);

} // namespace ridge::app
