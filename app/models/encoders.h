// Finds picture and sound encoders of models.
#pragma once

#include <string>
#include <string_view>

namespace ridge::app {

inline constexpr std::string_view kNoEncoder = "none";

// Finds the encoder beside `model` by name and row width, and takes the best type. Empty: none. Throws Error if it is
// ambiguous or does not fit.
std::string find_encoder(const std::string& model);

// `mmproj`, or find_encoder() if empty. Empty: none. Throws Error if it does not fit.
std::string encoder_to_use(const std::string& mmproj, const std::string& model);
// The same if there are pictures or sounds: throws Error (usage) if there is none.
std::string encoder_for_media(const std::string& mmproj, const std::string& model);

} // namespace ridge::app
