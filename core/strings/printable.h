// Untrusted text in messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ridge::core {

// Escapes control, invisible and bidirectional characters, invalid UTF-8 and backslashes; ends with "…" after about
// `max_bytes`.
std::string printable(std::string_view text, size_t max_bytes = 80);

} // namespace ridge::core
