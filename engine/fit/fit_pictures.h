// How much memory reading pictures and sounds takes, beside the language model.
#pragma once

#include "engine/fit/fit.h"
#include "models/sound/encoder.h"

#include <string>

namespace ridge::engine {

inline constexpr int64_t kPlannedSide = 1024;                         // pixels of a picture's sides
inline constexpr int64_t kPlannedSamples = 30 * models::sound::kRate; // of a sound

// What the encoder in an mmproj file takes on the CPU, or on a GPU of such limits: its weights, and what reading a
// picture of kPlannedSide or a sound of kPlannedSamples needs. Throws Error where the file has no encoder that is
// known.
Need encoder_need(const std::string& mmproj, int threads = 0, const kernels::cuda::DeviceLimits* gpu = nullptr);

} // namespace ridge::engine
