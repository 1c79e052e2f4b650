// SHA-256 of a file that is here already.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace ridge::hub {

// In hexadecimal digits of lower case. Calls step(bytes done) now and then, which may throw to end it. Throws Error
// where the file cannot be read.
std::string file_sha256(const std::string& path, const std::function<void(int64_t done)>& step = nullptr);

} // namespace ridge::hub
