// Measured time of each multiplication variant on a GPU over its estimate, stored by `ridge bench --calibrate` and used
// when loading.
#pragma once

#include <map>
#include <string>

namespace ridge::engine {

using WayFactors = std::map<std::string, double>; // keys: names of kernels/cuda/plan/candidates.h

// Empty if nothing is stored or the estimates have changed.
WayFactors kept_way_factors(const std::string& gpu);
void keep_way_factors(const std::string& gpu, const WayFactors& factors);

} // namespace ridge::engine
