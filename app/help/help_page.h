// The --help page.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace ridge::app {

// Options without a group are the common ones.
inline constexpr const char* kServerGroup = "Server"; // of the whole server
inline constexpr const char* kSamplingGroup = "Sampling";
inline constexpr const char* kMemoryGroup = "Memory and GPU";
inline constexpr const char* kAdvancedGroup = "Advanced";

// Sets the group of options added during its lifetime.
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
