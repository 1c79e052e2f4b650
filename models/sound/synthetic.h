// Encoders of sound without a download, as models/vision/synthetic.h has them of pictures.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace ridge::models::sound {

// `spec` is that of models::synthetic_model: NAME:TYPE. Throws Error (usage) where that shape has no encoder of sound.
std::shared_ptr<const std::vector<std::byte>> synthetic_encoder(std::string_view spec);

} // namespace ridge::models::sound
