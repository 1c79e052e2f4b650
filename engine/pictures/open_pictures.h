// Opens a language model with its encoder.
#pragma once

#include "api/requests.h"
#include "engine/loading/fit.h"
#include "engine/loading/loaded_model.h"
#include "engine/pictures/picture_reader.h"
#include "models/sound/encoder.h"

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

inline constexpr int64_t kPlannedSide = 1024;
inline constexpr int64_t kPlannedSamples = 30 * models::sound::kRate;

// For a picture of kPlannedSide or a sound of kPlannedSamples; on the CPU if `gpu` is null. Throws Error without a
// known encoder.
Need encoder_need(const std::string& mmproj, int threads = 0, const kernels::cuda::DeviceLimits* gpu = nullptr);

} // namespace ridge::engine
