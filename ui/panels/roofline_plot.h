#pragma once

#include "core/view/snapshot.h"
#include "ui/widgets/theme.h"

#include <string>

namespace ridge::ui {

using RooflineOp = core::StepRoofline::Op;

// Needs now.roofs. `marked`: op to enlarge, or empty.
void draw_roofline_plot(const core::Snapshot& now, const std::string& marked);

ImU32 color_of(const RooflineOp& op);
RooflineOp sum_of(const core::StepRoofline& step);
std::string description_of(const RooflineOp& op);

} // namespace ridge::ui
