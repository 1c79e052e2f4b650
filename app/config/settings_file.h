// The configuration file.
//   ctx-size = 8192             # every command with this option
//   [chat]                      # a command
//   temp = 0.7
//   stop = "\n\n"
//   [model "qwen3-8b"]          # a model, by given name, path or file name
//   top-k = 20
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ridge::app {

struct Setting {
  enum class Scope { general, command, model };
  Scope scope = Scope::general;
  std::string section;     // command or model; empty: general
  std::string name, value; // name without dashes; a flag's value is true or false
  size_t line = 0;

  std::string place() const; // "line 4, [chat]"
};

struct SettingsFile {
  std::string path;
  std::vector<Setting> settings;
};

struct CommandLine {
  SettingsFile file;
  std::vector<std::string> args; // as typed, command first
};

// Throws Error with the line.
SettingsFile parse_settings(std::string_view text, const std::string& path);

// Reads `--config FILE` (removed from `args`), else RIDGE_CONFIG, else the optional config.ini in
// core::config_folder(). "none": no file.
SettingsFile read_settings(std::vector<std::string>& args);

} // namespace ridge::app
