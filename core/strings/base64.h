// Base64.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ridge::core {

std::string to_base64(std::span<const std::byte> bytes); // padded

// Also decodes base64url, and text without padding or with line breaks. Returns nothing for other text.
std::optional<std::string> from_base64(std::string_view text);

} // namespace ridge::core
