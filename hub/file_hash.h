// SHA-256 of files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace ridge::hub {

// Returns the SHA-256 of a file in lower-case hexadecimal. step(bytes done) may throw to cancel. Throws Error if the
// file cannot be read.
std::string file_sha256(const std::string& path, const std::function<void(int64_t done)>& step = nullptr);

} // namespace ridge::hub
