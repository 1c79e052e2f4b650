// The plot of the roofline panel: the measured roofs of the machine, and the ops of a step under them.
#pragma once

#include "core/view/snapshot.h"
#include "ui/widgets/theme.h"

#include <string>

namespace ridge::ui {

using RooflineOp = core::StepRoofline::Op;

// Fills what is left of the card. Needs now.roofs. `marked`: the name of an op to draw larger; empty: none.
void draw_roofline_plot(const core::Snapshot& now, const std::string& marked);

ImU32 color_of(const RooflineOp& op);
// All ops of a step as one.
RooflineOp sum_of(const core::StepRoofline& step);
// What a tooltip says of an op, in several lines.
std::string description_of(const RooflineOp& op);

} // namespace ridge::ui
