// For `ridge roofline` and the window.
#pragma once

#include "api/requests.h"
#include "measure/roofline_report.h"

#include <functional>
#include <string>

namespace ridge::measure {

// An exception from `progress` cancels. Throws Error if device or model is unusable.
RooflineReport
measure_roofline(const api::RooflineRequest& request,
                 const std::function<void(std::string_view what, int64_t done, int64_t total)>& progress);

// Throws Error if the GPU is unusable.
engine::Device device_of(const api::RooflineRequest& request);

} // namespace ridge::measure
