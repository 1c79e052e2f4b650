// Sampling recommended by a model file (general.sampling.*).
#pragma once

#include "api/requests.h"
#include "engine/loading/loaded_model.h"

#include <string>
#include <vector>

namespace ridge::engine {

// Sets parameters that the user did not choose (SamplingOptions::chosen). `notice` reports each unusable key. Returns
// the changes: "temp 0.6", "top-k 20".
std::vector<std::string> take_model_defaults(api::SamplingOptions& options, const gguf::File& model,
                                             const Notice& notice);

} // namespace ridge::engine
