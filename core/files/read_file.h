// The bytes of a whole file.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace ridge::core {

// Reads the file at `path`, or standard input for "-". Throws Error where it cannot be read or has more than `most`
// bytes; -1: any number.
std::string read_text_file(const std::string& path, int64_t most = -1);

// Throws Error, before the work that it is for, where a file cannot be written or is one of those that are read.
void check_output(const std::string& path, std::initializer_list<std::string> inputs = {});

} // namespace ridge::core
