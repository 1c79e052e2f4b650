// What a model loses at which size, as points to choose one from.
#pragma once

#include "core/view/jobs.h"
#include "ui/widgets/theme.h"

#include <vector>

namespace ridge::ui {

// Draws into what is left of the width. Returns the point that was clicked, else null.
const core::FrontierPoint* draw_frontier(const std::vector<core::FrontierPoint>& points, float height);

} // namespace ridge::ui
