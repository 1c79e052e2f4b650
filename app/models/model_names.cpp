#include "app/models/model_names.h"

#include "core/error.h"
#include "core/strings/printable.h"
#include "hub/pull.h"

#include <filesystem>

namespace ridge::app {
namespace {

std::string resolved(const std::string& given) {
  std::error_code ignored;
  if (given.empty() || std::filesystem::exists(given, ignored)) return given;
  const auto reference = hub::parse_reference(given);
  const std::vector<hub::LocalModel> models = hub::local_models(hub::places(), reference.has_value());
  if (reference) {
    const hub::LocalModel* pulled = hub::find_pulled(models, *reference);
    return pulled ? pulled->path : pull_model(*reference);
  }
  if (const hub::LocalModel* model = hub::find_model(models, given)) return model->path;
  throw_error(
      "{}: there is no such file, and no such name among the models here (ridge models); hf:OWNER/REPO gets one",
      core::printable(given, 1000));
}

} // namespace

void resolve_models(CLI::App& command) {
  for (CLI::Option* option :
       command.get_options([](const CLI::Option* o) { return o->get_type_name() == kModelType; })) {
    const std::vector<std::string> given = option->results();
    std::vector<std::string> paths;
    for (const std::string& each : given) paths.push_back(resolved(each));
    if (paths == given) continue;
    option->clear();
    for (const std::string& path : paths) option->add_result(path);
    option->run_callback();
  }
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (hub::LocalModel& model : hub::local_models(hub::places())) names.push_back(std::move(model.name));
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

} // namespace ridge::app
