// Completions of a typed line.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::app {

struct Completions {
  size_t begin = 0;               // start of the word in the line
  std::vector<std::string> words; // each replaces the text from there
};

// Words that begin with the text from `begin`.
Completions completions_of(std::string_view line, size_t begin, std::span<const std::string> words);

// Folders end with a slash. `escape`: spaces get a backslash. Names with control characters are omitted.
Completions path_completions(std::string_view line, size_t begin, bool escape);

std::string common_start(std::span<const std::string> words);

// The last line counts omitted words.
std::string in_columns(std::span<const std::string> words, int columns);

} // namespace ridge::app
