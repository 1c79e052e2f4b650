// file: URLs.
#pragma once

#include <string>
#include <string_view>

namespace ridge::core {

inline constexpr std::string_view kFileUrl = "file:";

// Returns the absolute path in file:///a%20b or file:/a; the host may be localhost or this machine. Empty for other
// text, malformed escapes and zero bytes.
std::string path_of_file_url(std::string_view url);

} // namespace ridge::core
