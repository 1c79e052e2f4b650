// Divergence against size.
#pragma once

#include "api/jobs.h"
#include "ui/widgets/theme.h"

#include <vector>

namespace ridge::ui {

// Returns the clicked point or null.
const api::FrontierPoint* draw_frontier(const std::vector<api::FrontierPoint>& points, float height);

} // namespace ridge::ui
