// Whole files, and checks of output paths.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace ridge::core {

// Reads a file, or standard input for "-". Throws Error if it is unreadable or has more than `most` bytes (-1: no
// limit).
std::string read_text_file(const std::string& path, int64_t most = -1);

// Call it before the work: throws Error if the file cannot be written or is one of `inputs`.
void check_output(const std::string& path, std::initializer_list<std::string> inputs = {});

} // namespace ridge::core
