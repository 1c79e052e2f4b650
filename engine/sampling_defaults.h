// The sampling that a model's makers recommend, where its file states it (general.sampling.*).
#pragma once

#include "core/requests.h"
#include "engine/loaded_model.h"

#include <string>
#include <vector>

namespace ridge::engine {

// Gives the params that were not chosen (SamplingOptions::chosen) the values of the model file. `notice` gets one line
// for each key that cannot be used: of another type, out of range, or of a sampler that ridge does not have. Returns
// what the file changed, for the user: "temp 0.6", "top-k 20".
std::vector<std::string> take_model_defaults(core::SamplingOptions& options, const gguf::File& model,
                                             const Notice& notice);

} // namespace ridge::engine
