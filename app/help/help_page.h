// What --help prints: options in groups, as wide as the terminal.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace ridge::app {

// Groups of options. Options of no group are the common ones, in commands that have any group.
inline constexpr const char* kServerGroup = "Server"; // of a whole server, not of one of its models
inline constexpr const char* kSamplingGroup = "Sampling";
inline constexpr const char* kMemoryGroup = "Memory and GPU";
inline constexpr const char* kAdvancedGroup = "Advanced";

// While it lives, options that are added to the command are of this group.
class OptionGroup {
 public:
  OptionGroup(CLI::App& command, const char* name)
      : command_(command), before_(command.option_defaults()->get_group()) {
    command.option_defaults()->group(name);
  }
  ~OptionGroup() { command_.option_defaults()->group(before_); }
  OptionGroup(const OptionGroup&) = delete;
  OptionGroup& operator=(const OptionGroup&) = delete;

 private:
  CLI::App& command_;
  std::string before_;
};

class HelpPage : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

} // namespace ridge::app
