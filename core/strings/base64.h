// Bytes as text.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ridge::core {

std::string to_base64(std::span<const std::byte> bytes); // with padding

// The bytes of base64 with or without its padding, also in its form for addresses, and with line breaks; nothing for
// other text.
std::optional<std::string> from_base64(std::string_view text);

} // namespace ridge::core
