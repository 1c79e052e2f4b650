// Text from untrusted files, made fit for one line of a message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ridge::core {

// `text` with everything escaped that could break a line, steer a terminal or hide something: control characters, bytes
// that are not UTF-8, invisible and direction-changing characters, and the backslash itself. Cut with "…" after about
// `max_bytes`.
std::string printable(std::string_view text, size_t max_bytes = 80);

} // namespace ridge::core
