// A model on this machine in words and numbers, for lists that a person chooses from.
#pragma once

#include "core/requests.h"
#include "core/view/snapshot.h"
#include "engine/fit/fit.h"
#include "hub/local_models.h"

#include <optional>

namespace ridge::app {

core::ModelRow row_of(const hub::LocalModel& model); // without looking into it

// Fills what its file says and how it would run, with these options and so much memory. What is wrong with the file
// becomes its problem. Returns how it fits; nothing where it cannot be run.
std::optional<engine::Fit> look_into(core::ModelRow& row, const core::ModelOptions& options, const engine::Room& room);

} // namespace ridge::app
