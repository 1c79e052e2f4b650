// Opening a language model together with its encoder of pictures.
#pragma once

#include "core/requests.h"
#include "engine/loaded_model.h"
#include "engine/pictures/picture_reader.h"

#include <span>
#include <string>
#include <vector>

namespace ridge::engine {

// Pictures whose tokens see one another are evaluated at once; no family's have more than so many.
inline constexpr int64_t kMostTokensAhead = 1280;

// The files with an encoder whose rows the model takes. Throws Error where there are some and none is such.
std::vector<std::string> fitting_encoders(const std::string& model, std::span<const std::string> files);

// Sets the options that go with an encoder: tokens are guessed from the text itself (ngram), if at all. Throws Error
// where the options demand a draft head or model.
void settle_for_pictures(core::ModelOptions& options);

// Where pictures are encoded: on the first GPU that the options allow and that can be used; -1: on the CPU. `note` gets
// a line where there is no room on it.
PictureReader::Options encoding_options(const core::ModelOptions& options, const Notice& note);

// The model in `file`, with the encoder that the options name. Throws Error where the two do not belong together.
LoadedModel open_with_pictures(gguf::File file, const core::ModelOptions& options, const Notice& note);

} // namespace ridge::engine
