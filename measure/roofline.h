// Measures a roofline: what `ridge roofline` and the window's jobs have in common.
#pragma once

#include "core/requests.h"
#include "measure/roofline_report.h"

#include <functional>
#include <string>

namespace ridge::measure {

// progress(what, done, total) is called from time to time. What it throws comes out: throw to cancel. Throws Error
// where the device or the model cannot be used.
RooflineReport
measure_roofline(const core::RooflineRequest& request,
                 const std::function<void(std::string_view what, int64_t done, int64_t total)>& progress);

// The device that the request names: cuda or cpu. Throws Error where it asks for a GPU that is not usable.
engine::Device device_of(const core::RooflineRequest& request);

} // namespace ridge::measure
