#include "app/models/model_names.h"

#include "core/error.h"
#include "core/strings/closest.h"
#include "core/strings/lower.h"
#include "core/strings/printable.h"
#include "hub/pull.h"
#include "models/model.h"

#include <CLI/CLI.hpp>

#include <filesystem>

namespace ridge::app {
namespace {

void set_results(CLI::Option& option, const std::vector<std::string>& values) {
  option.clear();
  for (const std::string& value : values) option.add_result(value);
  option.run_callback();
}

} // namespace

std::string model_path(const std::string& given, bool or_text) {
  std::error_code ignored;
  if (given.empty() || std::filesystem::exists(given, ignored)) return given;
  const auto reference = hub::parse_reference(given);
  const std::vector<hub::LocalModel> models = hub::local_models(hub::places(), reference.has_value());
  if (reference) {
    const hub::LocalModel* pulled = hub::find_pulled(models, *reference);
    return pulled ? pulled->path : pull_model(*reference);
  }
  if (const hub::LocalModel* model = hub::find_model(models, given)) return model->path;
  std::vector<std::string> names;
  for (const hub::LocalModel& model : models) names.push_back(model.name);
  const std::string meant = core::did_you_mean(given, names), shown = core::printable(given, 1000);
  throw_error("{}: no such file, and no model of that name on this machine (see ridge models){}{}", shown,
              meant.empty() ? "; to download one, give hf:OWNER/REPO" : meant,
              or_text ? fmt::format("; to send it as a message, give -p \"{}\"", shown) : "");
}

std::string model_title(const gguf::File& file) {
  const std::string name = core::printable(file.get_string("general.name", ""), 60);
  if (name.find_first_not_of(' ') == std::string::npos) return models::model_label(file);
  const std::string type = models::file_type_label(file);
  return core::lower(name).find(core::lower(type)) == std::string::npos ? fmt::format("{} {}", name, type) : name;
}

bool take_model_word(CLI::App& command) {
  const auto all = command.get_options([](const CLI::Option* o) { return o->get_type_name() == kModelAndTextType; });
  CLI::Option* const model = command.get_option_no_throw("--model");
  if (all.empty() || !model || model->count() > 0 || all[0]->count() == 0) return false;
  std::vector<std::string> words = all[0]->results();
  const bool text_is_wanted = command.count("--prompt") == 0 && command.count("--file") == 0;
  std::error_code ignored;
  const bool is_text = command.get_name() == "tokenize" || (words[0].find_first_of(" \t\n") != std::string::npos &&
                                                            !std::filesystem::exists(words[0], ignored));
  if (words.size() == 1 && text_is_wanted && is_text) return false;
  set_results(*model, {words[0]});
  words.erase(words.begin());
  all[0]->clear();
  for (const std::string& word : words) all[0]->add_result(word);
  return words.empty() && text_is_wanted;
}

void resolve_models(CLI::App& command, bool or_text) {
  for (CLI::Option* option :
       command.get_options([](const CLI::Option* o) { return o->get_type_name() == kModelType; })) {
    const std::vector<std::string> given = option->results();
    std::vector<std::string> paths;
    for (const std::string& each : given) paths.push_back(model_path(each, or_text));
    if (paths == given) continue;
    set_results(*option, paths);
  }
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (hub::LocalModel& model : hub::local_models(hub::places())) names.push_back(std::move(model.name));
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

} // namespace ridge::app
