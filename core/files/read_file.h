// The bytes of a whole file.
#pragma once

#include <initializer_list>
#include <string>

namespace ridge::core {

// Of a file, or of standard input for "-". Throws Error.
std::string read_text_file(const std::string& path);

// Throws Error, before the work that it is for, where a file cannot be written or is one of those that are read.
void check_output(const std::string& path, std::initializer_list<std::string> inputs = {});

} // namespace ridge::core
