// ridge config: shows the configuration file's settings.
#include "app/cli/cli.h"
#include "app/config/merge.h"
#include "app/help/command_tree.h"
#include "core/error.h"
#include "core/files/xdg.h"
#include "core/strings/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace ridge::app {
namespace {

struct ConfigCommand {
  CLI::App& app;
  const CommandLine& line;
  std::string command, model;

  void run() const {
    const SettingsFile& file = line.file;
    if (file.path.empty()) {
      fmt::print("no configuration file; ridge would read {}/config.ini\n", core::config_folder());
      return;
    }
    fmt::print("{}\n", core::printable(file.path, 4096));
    for (const Setting& setting : command.empty() ? file.settings : holding())
      fmt::print("{:<40} {}\n", core::printable(fmt::format("{} = {}", setting.name, setting.value), 200),
                 core::printable(setting.place(), 100));
  }

  std::vector<Setting> holding() const {
    const std::vector<CLI::App*> commands = commands_of(app);
    const auto found = std::ranges::find(commands, command, &CLI::App::get_name);
    if (found == commands.end())
      throw Error(fmt::format("unknown command '{}'; see ridge --help", command), Error::kUsage);
    std::vector<std::string> args = {command};
    if (!model.empty()) args.push_back("--model=" + model);
    return settings_for(**found, args, line.file);
  }
};

} // namespace

void add_config_command(CLI::App& app, const CommandLine& line) {
  auto options = std::make_shared<ConfigCommand>(ConfigCommand{app, line, {}, {}});
  CLI::App* command =
      app.add_subcommand("config", "show the settings of the configuration file and where each one is set");
  command->add_option("command", options->command, "show only settings that apply to this command")
      ->type_name("COMMAND");
  command->add_option("for", options->model, "… with this model")->type_name("MODEL-NAME");
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
