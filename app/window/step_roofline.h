// Roofline of a step: measured, or predicted by op_cost.
#pragma once

#include "api/snapshot.h"
#include "engine/loading/loaded_model.h"
#include "measure/profile_report.h"
#include "measure/roofline_report.h"

#include <string>

namespace ridge::app {

api::Roofs describe_roofs(const measure::RooflineReport& report);

// A decode step of `streams` streams with `past` tokens each. `format` applies where its block size divides the rows
// (empty: as stored). Times are lower bounds. Throws Error for an unknown format.
api::StepRoofline predicted_step(const engine::LoadedModel& model, const measure::RooflineReport& roofs, int64_t past,
                                 int64_t streams, const std::string& format);

// roofs: may be null.
api::StepRoofline measured_step(const engine::LoadedModel& model, const measure::StepProfile& profile,
                                const measure::RooflineReport* roofs);

} // namespace ridge::app
