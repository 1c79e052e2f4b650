// Commands and options as data, for completions and the manual.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace ridge::app {

struct OptionWords {
  std::vector<std::string> names; // "-m", "--model"; empty: positional
  std::string value;              // "FILE"; empty: a flag
  std::vector<std::string> choices;
  std::string help, default_value;
  std::string group;
  bool accepts_positional = false; // its value may be given without a name
};

std::vector<CLI::App*> commands_of(CLI::App& app);
OptionWords words_of(const CLI::Option& option);
std::vector<OptionWords> options_of(const CLI::App& command);

// `ridge __complete WORD…`: prints candidates for the last word, each with a tab and a description, or ":files".
// Candidates of "--option=…" include that prefix; ":files" does not. Returns the exit status.
int print_completions(CLI::App& app, const std::vector<std::string>& words);

} // namespace ridge::app
