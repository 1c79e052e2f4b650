// Opens a language model with its encoder.
#pragma once

#include "api/requests.h"
#include "engine/loading/loaded_model.h"
#include "engine/pictures/picture_reader.h"

#include <span>
#include <string>
#include <vector>

namespace ridge::engine {

// Most tokens of a picture that see each other and need one batch, in any supported family.
inline constexpr int64_t kMaxTokensAhead = 1280;

// Returns the files whose rows fit the model. Throws Error if there are files but none fits.
std::vector<std::string> fitting_encoders(const std::string& model, std::span<const std::string> files);

// Chooses the first usable GPU, else the CPU. `note` reports a lack of room.
PictureReader::Options encoding_options(const api::ModelOptions& options, const Notice& note);

// The model's Program must take pictures. Throws Error if model and encoder do not fit.
void add_pictures(LoadedModel& model, const api::ModelOptions& options, const Notice& note);

} // namespace ridge::engine
