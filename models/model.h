// From a GGUF file to a Program.
#pragma once

#include "core/program.h"
#include "gguf/gguf.h"

#include <cstdint>
#include <string>

namespace ridge::models {

// What a Program ends with: logits; the normed hidden state that an output matrix would make them of; or logits and,
// beside them, the hidden rows of all tokens, which the file's draft heads take (Program::hidden). With `pictures` it
// ends with logits, and batches may give tokens rows and places (Program::has_places); `drafted_pictures` has both.
// `encoded`: of a model with an encoder and a decoder (Program::start_token), the encoder's Program, which also keeps
// what the decoder attends to.
enum class Ending : uint8_t { logits, hidden, drafted, pictures, drafted_pictures, encoded };

// Builds the Program of the file's architecture. Throws Error for an unknown architecture, a tensor that is missing or
// has another shape, a hyperparameter out of range, and a model that asks for something that is not supported yet. The
// file must outlive the Program: weights point into its mapping. Models without an output matrix end with the hidden
// state, whatever `ending` says.
core::Program build_program(const gguf::File& file, Ending ending = Ending::logits);

// Draft heads of the file: layers that nextn_predict_layers announces and whose tensors are there. Throws Error where
// block_count or nextn_predict_layers are out of range.
int64_t draft_heads(const gguf::File& file);
// The Program of draft head `head`, 0 to draft_heads() - 1. Its rows are tokens and, as Program::input, the hidden row
// that the model has of the token before each, zeros for a first one. Its logits are of the token after each; its own
// hidden rows (Program::hidden) are those of the wanted outputs, or of all tokens where the file has a further head,
// which takes them. Its cache is its own. With Ending::pictures batches may give tokens rows and places. Throws Error
// where the file has no such head, heads of the architecture are not supported, and for what build_program throws.
core::Program build_draft_head(const gguf::File& file, int64_t head = 0, Ending ending = Ending::logits);
// Leaves a draft head logits of the first `tokens` tokens, as far as they are all that its output matrix makes. What
// follows the vocabulary's order, likelier tokens first, is then guessed at a fraction of the bytes.
void cut_vocabulary(core::Program& head, int64_t tokens);

int64_t parameter_count(const gguf::File& file); // weights in all tensors

// A short name for tables: "llama 8B Q4_K_M". The type is the name of general.file_type, or the type of most weights.
std::string model_label(const gguf::File& file);
std::string file_type_label(const gguf::File& file);

} // namespace ridge::models
