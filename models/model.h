// Builds Programs from GGUF files.
#pragma once

#include "core/program.h"
#include "gguf/gguf.h"
#include "models/blocks/specs.h"

#include <cstdint>
#include <string>

namespace ridge::models {

// Builds the Program of the file's architecture. The file must outlive it: weights point into the mapping. Models
// without an output matrix end with the hidden state for any `ending`. Throws Error for unknown architectures, missing
// or misshapen tensors, hyperparameters out of range and unsupported features.
core::Program build_program(const gguf::File& file, Ending ending = Ending::logits);

// Number of draft heads: layers announced by nextn_predict_layers that have tensors. Throws Error if the key or
// block_count is out of range.
int64_t draft_heads(const gguf::File& file);
// Builds the Program of draft head `head`, below draft_heads(). Its inputs are tokens and the model's hidden row of
// each previous token (Program::input), zeros for the first. Its logits predict the token after each. Program::hidden
// has the rows of wanted outputs, or of all tokens if a further head takes them. It has its own cache. With
// Ending::pictures batches may have rows and places. Throws Error like build_program, or if there is no supported head.
core::Program build_draft_head(const gguf::File& file, int64_t head = 0, Ending ending = Ending::logits);
// Keeps only the logits of the first `tokens` tokens, which usually include the likely ones, so that guesses read fewer
// bytes. No effect if the last op is not a plain output matrix.
void cut_vocabulary(core::Program& head, int64_t tokens);

int64_t parameter_count(const gguf::File& file);

// "llama 8B Q4_K_M". The type is that of general.file_type or of most weights.
std::string model_label(const gguf::File& file);
std::string file_type_label(const gguf::File& file);

} // namespace ridge::models
