// Models, tensors and blocks as data for the window.
#pragma once

#include "api/snapshot.h"
#include "engine/loading/loaded_model.h"

#include <functional>
#include <string>

namespace ridge::app {

// The model must have an executor.
api::ModelFacts model_facts(const engine::LoadedModel& model);

api::Tokenized tokenize_for_display(const engine::LoadedModel& model, const std::string& text);

std::vector<std::string> display_vocabulary(const engine::LoadedModel& model);

api::Sequences with_texts(const engine::LoadedModel& model, api::Sequences sequences);

// Bytes that the next token reads, with `past` tokens in the KV cache.
std::vector<api::StepShare> step_shares(const engine::LoadedModel& model, int64_t past);

// Calculates statistics of a tensor, then the error of each format. `publish` is called for each format and returns
// false to stop. Throws Error if the file has no such tensor of weights.
void study_tensor(const gguf::File& file, const std::string& name,
                  const std::function<bool(const api::TensorStudy&)>& publish);

// A block as stored (format empty) or as quantized. Throws Error as above, and for formats without a bit layout or a
// block out of range.
api::BlockStudy study_block(const gguf::File& file, const api::intent::StudyBlock& wanted);

// A rectangle of a tensor. Throws Error as above.
api::SliceStudy study_slice(const gguf::File& file, const api::intent::StudySlice& wanted);

} // namespace ridge::app
