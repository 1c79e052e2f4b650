#pragma once

#include "api/snapshot.h"
#include "ui/widgets/theme.h"

#include <string>

namespace ridge::ui {

using RooflineOp = api::StepRoofline::Op;

// Needs now.roofs. `marked`: op to enlarge, or empty.
void draw_roofline_plot(const api::Snapshot& now, const std::string& marked);

ImU32 color_of(const RooflineOp& op);
RooflineOp sum_of(const api::StepRoofline& step);
std::string description_of(const RooflineOp& op);

} // namespace ridge::ui
