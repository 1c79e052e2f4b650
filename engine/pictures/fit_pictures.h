// Memory that reading pictures and sounds needs.
#pragma once

#include "engine/loading/fit.h"
#include "models/sound/encoder.h"

#include <string>

namespace ridge::engine {

inline constexpr int64_t kPlannedSide = 1024;
inline constexpr int64_t kPlannedSamples = 30 * models::sound::kRate;

// For a picture of kPlannedSide or a sound of kPlannedSamples; on the CPU if `gpu` is null. Throws Error without a
// known encoder.
Need encoder_need(const std::string& mmproj, int threads = 0, const kernels::cuda::DeviceLimits* gpu = nullptr);

} // namespace ridge::engine
