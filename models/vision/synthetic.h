// Encoders of pictures without a download, for models/synthetic.h's models: an mmproj image in the shape of a real one,
// with random weights in F16.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace ridge::models::vision {

// `spec` is that of models::synthetic_model: NAME:TYPE. Throws Error (usage) where that shape has no encoder.
std::shared_ptr<const std::vector<std::byte>> synthetic_encoder(std::string_view spec);

} // namespace ridge::models::vision
