// What the parser knows of the commands and options, for what is made from it: completions and the manual page.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace ridge::app {

struct OptionWords {
  std::vector<std::string> names;   // "-m", "--model"; none: a positional argument
  std::string value;                // "FILE"; empty: a flag
  std::vector<std::string> choices; // what the value can be, where these are few
  std::string help, standard;       // the default, as the parser shows it
  std::string group;                // help_page.h
  bool bare = false;                // its value may stand without a name
};

std::vector<CLI::App*> commands_of(CLI::App& app);
OptionWords words_of(const CLI::Option& option);
std::vector<OptionWords> options_of(const CLI::App& command);

// `ridge __complete WORD…`, which the scripts call with the words so far but "ridge" itself: prints what may stand
// where the last begins, each with a tab and what it means; ":files" where a file's name may. Where the last is
// "--option=…", the words begin with that, too, but ":files" stands for what follows it. Returns the exit status.
int print_completions(CLI::App& app, const std::vector<std::string>& words);

} // namespace ridge::app
