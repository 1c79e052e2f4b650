// Checks command lines and translates other programs' options before parsing.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace ridge::app {

// `words`: without the program name. Throws Error (usage) with advice for unknown commands or options, extra words, and
// llama.cpp options without a counterpart.
std::vector<std::string> read_words(CLI::App& app, const std::vector<std::string>& words);

} // namespace ridge::app
