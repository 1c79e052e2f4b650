// Merges the configuration file into a command line. Priority: flags, model section, command section, general settings.
#pragma once

#include "app/config/settings_file.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace ridge::app {

// Throws Error for an unknown section or option. General and model sections may use any command's options.
void check_settings(CLI::App& app, const SettingsFile& file);

// The settings that apply to `args` (command first), in file order, with single-valued options only once. If there are
// several models, no model section applies.
std::vector<Setting> settings_for(const CLI::App& command, const std::vector<std::string>& args,
                                  const SettingsFile& file);

// The same for one of several models.
std::vector<Setting> settings_for_one(const CLI::App& command, const std::vector<std::string>& args,
                                      const SettingsFile& file, const std::vector<std::string>& names);

bool has_section(const SettingsFile& file, const std::vector<std::string>& names);

std::vector<std::string> with_settings(std::vector<std::string> args, const std::vector<Setting>& settings);

// The place in the file, to append to an error about a setting; empty: the error is about none.
std::string origin_of(const std::string& error, const std::vector<Setting>& settings, const SettingsFile& file);

} // namespace ridge::app
