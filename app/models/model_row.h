// A local model as a row of a list.
#pragma once

#include "api/requests.h"
#include "api/snapshot.h"
#include "engine/loading/fit.h"
#include "hub/local_models.h"

#include <optional>

namespace ridge::app {

api::ModelRow row_of(const hub::LocalModel& model); // does not open the file

// Adds the file's facts and how it fits. An error in the file becomes the row's problem. Returns nothing if the model
// cannot run.
std::optional<engine::Fit> add_file_facts(api::ModelRow& row, const api::ModelOptions& options,
                                          const engine::Room& room);

} // namespace ridge::app
