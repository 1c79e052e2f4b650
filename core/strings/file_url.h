// URLs of files, as file managers and terminals write them.
#pragma once

#include <string>
#include <string_view>

namespace ridge::core {

inline constexpr std::string_view kFileUrl = "file:"; // what they begin with

// The absolute path in file:///a%20b, file://localhost/a, file://NAME-OF-THIS-MACHINE/a or file:/a. Empty for a file of
// another machine, for an escape that is malformed or stands for a zero byte, and for what is no such URL.
std::string path_of_file_url(std::string_view url);

} // namespace ridge::core
