#include "app/help/command_tree.h"

#include <algorithm>

namespace ridge::app {

std::vector<CLI::App*> commands_of(CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

OptionWords words_of(const CLI::Option& option) {
  OptionWords words;
  for (const std::string& name : option.get_snames()) words.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) words.names.push_back("--" + name);
  words.help = option.get_description();
  words.default_value = option.get_default_str();
  words.group = option.get_group();
  words.accepts_positional = option.get_positional();
  if (option.get_items_expected_max() == 0) return words;
  // CLI11 appends validators: "NAME:{auto,cuda,cpu}", "N:INT in [0 - 9]".
  const std::string type = option.get_type_name();
  words.value = type.substr(0, type.find(':'));
  const size_t open = type.find(":{"), close = type.find('}');
  if (open != std::string::npos && close != std::string::npos && open < close)
    words.choices = CLI::detail::split(type.substr(open + 2, close - open - 2), ',');
  if (words.value.empty()) words.value = words.names.empty() ? option.get_name() : "VALUE";
  return words;
}

std::vector<OptionWords> options_of(const CLI::App& command) {
  std::vector<OptionWords> all;
  for (const CLI::Option* option : command.get_options()) all.push_back(words_of(*option));
  return all;
}

} // namespace ridge::app
