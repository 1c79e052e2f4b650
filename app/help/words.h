// The words of a command line before the parser reads them: what other programs of this field write, in ridge's words,
// and errors that say what a word is taken for and what was probably meant.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace ridge::app {

// `words`: all behind the program's name. Throws Error (usage) for an unknown command or option, for a word too many,
// and for one of llama.cpp's that has no counterpart, with what to write instead.
std::vector<std::string> read_words(CLI::App& app, const std::vector<std::string>& words);

} // namespace ridge::app
