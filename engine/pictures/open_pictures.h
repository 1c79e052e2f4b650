// Opening a language model together with its encoder of pictures.
#pragma once

#include "core/requests.h"
#include "engine/loaded_model.h"

#include <string>

namespace ridge::engine {

// Pictures whose tokens see one another are evaluated at once; no family's have more than so many.
inline constexpr int64_t kMostTokensAhead = 1280;

// The file of an encoder that lies beside a model: mmproj*.gguf in its folder. Of several, the one with the model's
// name behind "mmproj-" counts, else the one of F16. Empty: there is none.
std::string find_mmproj(const std::string& model);

// Sets the options that go with an encoder: models that take pictures run on the CPU and without speculation. Throws
// Error where the options demand something else.
void settle_for_pictures(core::ModelOptions& options, const Notice& note);

// The model in `file`, with the encoder that the options name. Throws Error where the two do not belong together.
LoadedModel open_with_pictures(gguf::File file, const core::ModelOptions& options);

} // namespace ridge::engine
