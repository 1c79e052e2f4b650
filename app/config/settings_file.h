// The configuration file: values of options that hold until a flag says otherwise.
//
//   ctx-size = 8192             # for every command that has the option
//   [chat]                      # for a command
//   temp = 0.7
//   stop = "\n\n"
//   [model "qwen3-8b"]          # for a model, by the name or path that a command is given, or by its file's name
//   top-k = 20
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ridge::app {

struct Setting {
  enum class Scope { general, command, model };
  Scope scope = Scope::general;
  std::string section;     // the command's name, or the model's; empty: general
  std::string name, value; // of the option, without dashes; a flag's value is true or false
  size_t line = 0;

  std::string place() const; // "line 4, [chat]"
};

struct SettingsFile {
  std::string path; // empty: there is none
  std::vector<Setting> settings;
};

struct CommandLine {
  SettingsFile file;
  std::vector<std::string> args; // as a person wrote them, the command first
};

// Throws Error with the line of what is no setting and no section.
SettingsFile parse_settings(std::string_view text, const std::string& path);

// The file that `--config FILE` in `args` names, which is taken out of them; else that of RIDGE_CONFIG, else
// config.ini in core::config_folder(), which may be absent. "none": none.
SettingsFile read_settings(std::vector<std::string>& args);

} // namespace ridge::app
