// The ops of a model's step under the roofs of its machine, as plain data for the window: measured by the executor's
// profile, or predicted from op_cost for a context, a number of streams and a format that were not run.
#pragma once

#include "core/view/snapshot.h"
#include "engine/loaded_model.h"
#include "measure/profile_report.h"
#include "measure/roofline_report.h"

#include <string>

namespace ridge::app {

core::Roofs describe_roofs(const measure::RooflineReport& report);

// `past` tokens before each of `streams` tokens, decoded together; weights in `format`, where it divides their rows
// (empty: as stored). Throws Error where there is no such format. Times are floors: what the roofs allow.
core::StepRoofline predicted_step(const engine::LoadedModel& model, const measure::RooflineReport& roofs, int64_t past,
                                  int64_t streams, const std::string& format);

// roofs: null where they are not measured; the ops are then not bound by anything.
core::StepRoofline measured_step(const engine::LoadedModel& model, const measure::StepProfile& profile,
                                 const measure::RooflineReport* roofs);

} // namespace ridge::app
