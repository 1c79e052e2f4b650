// Divergence against size.
#pragma once

#include "core/view/jobs.h"
#include "ui/widgets/theme.h"

#include <vector>

namespace ridge::ui {

// Returns the clicked point or null.
const core::FrontierPoint* draw_frontier(const std::vector<core::FrontierPoint>& points, float height);

} // namespace ridge::ui
