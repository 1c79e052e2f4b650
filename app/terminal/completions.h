// What may stand at the end of a line that a person is typing.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::app {

struct Completions {
  size_t begin = 0;               // of the word, in the line
  std::vector<std::string> words; // each in place of what stands from there on
};

// The words that begin with the line's text from `begin` on.
Completions completions_of(std::string_view line, size_t begin, std::span<const std::string> words);

// Paths of files and folders, the latter with a slash at the end. `escape`: with a backslash before spaces, as within a
// text. Names that could steer a terminal are left out.
Completions path_completions(std::string_view line, size_t begin, bool escape);

// What all words begin with.
std::string common_start(std::span<const std::string> words);

// The words in columns, for a terminal so wide; the last line says how many are left out where there are many.
std::string in_columns(std::span<const std::string> words, int columns);

} // namespace ridge::app
