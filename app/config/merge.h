// A command line with what the configuration file adds to it. A flag goes before a model's section, that before a
// command's, and that before what stands in front of all sections.
#pragma once

#include "app/config/settings_file.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace ridge::app {

// Throws Error, with the line, for a section of no command and for a name that is no option there: of a command its
// own, in front of all sections and of a model that of any command.
void check_settings(CLI::App& app, const SettingsFile& file);

// The settings that hold for these words of a command line, the command first, in the order of the file; of an option
// that takes one value, the one that counts. Where there are several models, no model's section holds for all.
std::vector<Setting> settings_for(const CLI::App& command, const std::vector<std::string>& args,
                                  const SettingsFile& file);

// The same where one of several models of that command line is opened: with the sections of that model, by its name or
// its path, and no other's.
std::vector<Setting> settings_for_one(const CLI::App& command, const std::vector<std::string>& args,
                                      const SettingsFile& file, const std::vector<std::string>& names);

// Whether a section of the file is for that model.
bool has_section(const SettingsFile& file, const std::vector<std::string>& names);

// The words with those settings behind the command.
std::vector<std::string> with_settings(std::vector<std::string> args, const std::vector<Setting>& settings);

// What to add to an error that is about an option which the file sets: where it stands. Empty: it is about none.
std::string origin_of(const std::string& error, const std::vector<Setting>& settings, const SettingsFile& file);

} // namespace ridge::app
