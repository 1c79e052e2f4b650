#include "app/config/merge.h"

#include "app/help/command_tree.h"
#include "core/error.h"
#include "core/strings/printable.h"
#include "server/models/models.h"

#include <algorithm>
#include <set>

namespace ridge::app {
namespace {

const CLI::Option* find_option(const CLI::App& command, const std::string& name) {
  for (const CLI::Option* option : command.get_options())
    if (std::ranges::find(option->get_lnames(), name) != option->get_lnames().end()) return option;
  return nullptr;
}

bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }
bool takes_all(const CLI::Option& option) {
  return option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll || option.get_items_expected_max() > 1;
}

struct Given {
  Given(const CLI::App& command, const std::vector<std::string>& args) {
    const CLI::Option* const model = find_option(command, "model");
    for (size_t i = 1; i < args.size(); ++i) {
      const std::string& arg = args[i];
      if (arg == "--") break;
      if (!arg.starts_with('-') || arg.size() < 2) {
        if (model && model->get_positional() && !names_model) take_model(model, arg);
        continue;
      }
      const bool is_long = arg.starts_with("--");
      const size_t equals = is_long ? arg.find('=') : std::string::npos;
      const std::string name = is_long ? arg.substr(2, equals - 2) : arg.substr(1, 1);
      const CLI::Option* option = nullptr;
      for (const CLI::Option* one : command.get_options()) {
        const std::vector<std::string>& names = is_long ? one->get_lnames() : one->get_snames();
        if (std::ranges::find(names, name) != names.end()) option = one;
      }
      if (!option) continue;
      options.insert(option);
      if (is_flag(*option)) continue;
      const bool attached = is_long ? equals != std::string::npos : arg.size() > 2;
      const std::string value = is_long && attached   ? arg.substr(equals + 1)
                                : attached            ? arg.substr(2)
                                : i + 1 < args.size() ? args[++i]
                                                      : "";
      if (option == model) take_model(model, value);
    }
  }

  void take_model(const CLI::Option* option, const std::string& value) {
    options.insert(option);
    names_model = true;
    models.push_back(value);
  }

  std::set<const CLI::Option*> options;
  bool names_model = false;
  std::vector<std::string> models;
};

bool is_of(const Setting& setting, const std::string& model) {
  return setting.section == model || setting.section == server::model_name(model);
}

bool exclude(const CLI::Option* a, const CLI::Option* b) {
  return a->get_excludes().contains(const_cast<CLI::Option*>(b)) ||
         b->get_excludes().contains(const_cast<CLI::Option*>(a));
}

// Collects settings by descending priority.
class Merge {
 public:
  Merge(const CLI::App& command, const std::vector<std::string>& args, const SettingsFile& file)
      : command_(command), file_(file), given_(command, args), higher_(given_.options) {}

  std::vector<Setting> merged() {
    std::vector<std::string> models = given_.names_model ? given_.models : models_of_file();
    if (models.size() > 1 || serves_folder()) models.clear();
    return merged(models);
  }

  std::vector<Setting> merged(const std::vector<std::string>& models) {
    take([&](const Setting& setting) {
      return setting.scope == Setting::Scope::model &&
             std::ranges::any_of(models, [&](const std::string& model) { return is_of(setting, model); });
    });
    take([&](const Setting& setting) { return is_of_command(setting); });
    take([](const Setting& setting) { return setting.scope == Setting::Scope::general; });
    std::vector<Setting> settings;
    for (const auto& [option, setting] : holding_) settings.push_back(setting);
    std::ranges::sort(settings, {}, &Setting::line);
    return settings;
  }

 private:
  bool is_of_command(const Setting& setting) const {
    return setting.scope == Setting::Scope::command && setting.section == command_.get_name();
  }

  bool serves_folder() const {
    const CLI::Option* const folder = find_option(command_, "models-dir");
    return folder &&
           (given_.options.contains(folder) || std::ranges::any_of(file_.settings, [&](const Setting& setting) {
              return setting.name == "models-dir" && setting.scope != Setting::Scope::model;
            }));
  }

  std::vector<std::string> models_of_file() const {
    std::vector<std::string> of_command, general;
    for (const Setting& setting : file_.settings)
      if (setting.name == "model" && find_option(command_, "model")) {
        if (is_of_command(setting)) of_command.push_back(setting.value);
        if (setting.scope == Setting::Scope::general) general.push_back(setting.value);
      }
    return of_command.empty() ? general : of_command;
  }

  // Adds a section's settings, except those that are set or excluded by set ones. The last of a name counts.
  template <typename Applies>
  void take(const Applies& applies) {
    std::set<const CLI::Option*> here;
    for (const Setting& setting : file_.settings) {
      const CLI::Option* const option = applies(setting) ? find_option(command_, setting.name) : nullptr;
      if (!option || higher_.contains(option) ||
          std::ranges::any_of(higher_, [&](const CLI::Option* other) { return exclude(option, other); }))
        continue;
      if (!takes_all(*option)) std::erase_if(holding_, [&](const auto& other) { return other.first == option; });
      holding_.emplace_back(option, setting);
      here.insert(option);
    }
    higher_.insert(here.begin(), here.end());
  }

  const CLI::App& command_;
  const SettingsFile& file_;
  const Given given_;
  std::set<const CLI::Option*> higher_;
  std::vector<std::pair<const CLI::Option*, Setting>> holding_;
};

} // namespace

std::vector<Setting> settings_for(const CLI::App& command, const std::vector<std::string>& args,
                                  const SettingsFile& file) {
  return Merge(command, args, file).merged();
}

std::vector<Setting> settings_for_one(const CLI::App& command, const std::vector<std::string>& args,
                                      const SettingsFile& file, const std::vector<std::string>& names) {
  return Merge(command, args, file).merged(names);
}

bool has_section(const SettingsFile& file, const std::vector<std::string>& names) {
  return std::ranges::any_of(file.settings, [&](const Setting& setting) {
    return setting.scope == Setting::Scope::model &&
           std::ranges::any_of(names, [&](const std::string& name) { return is_of(setting, name); });
  });
}

void check_settings(CLI::App& app, const SettingsFile& file) {
  const std::vector<CLI::App*> commands = commands_of(app);
  for (const Setting& setting : file.settings) {
    const auto fail = [&](const std::string& what) {
      throw Error(fmt::format("{}:{}: {}", file.path, setting.line, what), Error::kUsage);
    };
    const std::string name = core::printable(setting.name, 60);
    if (setting.name == "help" || setting.name == "config" || setting.name == "version")
      fail(fmt::format("{} cannot be set in the configuration file", name));
    if (setting.scope != Setting::Scope::command) {
      if (std::ranges::none_of(commands, [&](const CLI::App* one) { return find_option(*one, setting.name); }))
        fail(fmt::format("no command has an option --{}", name));
      continue;
    }
    const auto command =
        std::ranges::find(commands, setting.section, [](const CLI::App* one) { return one->get_name(); });
    if (command == commands.end())
      fail(fmt::format("[{}]: unknown command; a model's section is [model \"NAME\"]",
                       core::printable(setting.section, 60)));
    if (!find_option(**command, setting.name))
      fail(fmt::format("{} has no option --{}; see ridge {} --help", setting.section, name, setting.section));
  }
}

std::vector<std::string> with_settings(std::vector<std::string> args, const std::vector<Setting>& settings) {
  std::vector<std::string> words;
  for (const Setting& setting : settings) words.push_back(fmt::format("--{}={}", setting.name, setting.value));
  args.insert(args.begin() + 1, words.begin(), words.end());
  return args;
}

std::string origin_of(const std::string& error, const std::vector<Setting>& settings, const SettingsFile& file) {
  for (const Setting& setting : settings) {
    const std::string flag = "--" + setting.name;
    for (size_t at = error.find(flag); at != std::string::npos; at = error.find(flag, at + 1)) {
      const char next = at + flag.size() < error.size() ? error[at + flag.size()] : ' ';
      if (std::isalnum(static_cast<unsigned char>(next)) || next == '-') continue;
      return fmt::format(" ({}:{})", file.path, setting.line);
    }
  }
  return {};
}

} // namespace ridge::app
