// How long each way to multiply takes on a GPU, in units of what it is expected to take there: found by `ridge bench
// --calibrate`, kept per GPU, and taken into account whenever a model is loaded.
#pragma once

#include <map>
#include <string>

namespace ridge::engine {

using WayFactors = std::map<std::string, double>; // by kernels/cuda/plan/candidates.h's names

// Empty where nothing is kept of this GPU, or what is kept was found for other expectations.
WayFactors kept_way_factors(const std::string& gpu);
// Instead of what was kept; empty: nothing is.
void keep_way_factors(const std::string& gpu, const WayFactors& factors);

} // namespace ridge::engine
