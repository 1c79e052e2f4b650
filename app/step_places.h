// The ops of a model's step under the roofs of its machine, as plain data for the window: measured by the executor's
// profile, or predicted from op_cost for a context, a number of streams and a format that nobody has run.
#pragma once

#include "app/loaded_model.h"
#include "app/profile_report.h"
#include "app/roofline_report.h"
#include "core/snapshot.h"

#include <string>

namespace ridge::app {

core::Roofs describe_roofs(const RooflineReport& report);

// `past` tokens before each of `streams` tokens, decoded together; weights in `format`, where it divides their rows
// (empty: as stored). Throws Error where there is no such format. Times are floors: what the roofs allow.
core::StepPlaces predict_step(const LoadedModel& model, const RooflineReport& roofs, int64_t past, int64_t streams,
                              const std::string& format);

// roofs: null where they are not measured; the ops are then not bound by anything.
core::StepPlaces place_profile(const LoadedModel& model, const StepProfile& profile, const RooflineReport* roofs);

} // namespace ridge::app
