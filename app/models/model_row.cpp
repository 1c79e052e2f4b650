#include "app/models/model_row.h"

#include "core/strings/printable.h"
#include "engine/loading/cache_offers.h"
#include "engine/speculation/speculation.h"
#include "models/model.h"

#include <fmt/format.h>

namespace ridge::app {

api::ModelRow row_of(const hub::LocalModel& model) {
  api::ModelRow row{model.name, fmt::format("{}: {}", hub::name_of(model.source), model.origin), model.path,
                    model.bytes};
  if (!model.whole) row.problem = "parts of it are missing";
  return row;
}

std::optional<engine::Fit> add_file_facts(api::ModelRow& row, const api::ModelOptions& options,
                                          const engine::Room& room) {
  if (!row.problem.empty()) return std::nullopt;
  try {
    const gguf::File file = gguf::File::open(row.path);
    row.architecture = core::printable(file.get_string("general.architecture", "?"));
    row.type = models::file_type_label(file);
    row.parameters = models::parameter_count(file);
    api::ModelOptions without_other = options;
    without_other.draft_model.clear();
    std::vector<engine::LoadedHead> heads = engine::heads_to_use(file, without_other);
    const core::Program program =
        models::build_program(file, heads.empty() ? models::Ending::logits : models::Ending::drafted);
    if (program.start_token >= 0) heads.push_back({models::build_program(file, models::Ending::encoded)});
    row.trained_context = program.trained_context;
    engine::Fit fit =
        engine::fit(program, engine::generating_config(options, program), room, engine::placement_of(options), heads);
    row.context = fit.largest_context;
    if (row.context == 0) row.problem = engine::what_would_fit(program, fit, row.parameters, {});
    return fit;
  } catch (const std::exception& error) {
    row.problem = error.what();
    return std::nullopt;
  }
}

} // namespace ridge::app
