// Synthetic audio encoders.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace ridge::models::sound {

// `spec` as for synthetic_model. Throws Error (usage) without an audio encoder.
std::shared_ptr<const std::vector<std::byte>> synthetic_encoder(std::string_view spec);

} // namespace ridge::models::sound
