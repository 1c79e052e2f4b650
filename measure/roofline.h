// Measuring a roofline: what `ridge roofline` and the window's jobs have in common.
#pragma once

#include "measure/roofline_report.h"

#include <functional>
#include <string>

namespace ridge::measure {

struct RooflineRequest {
  std::string file, shape; // whose kernels and steps are placed; both empty: the usual shape for the device
  std::string device = "auto";
  int threads = 0;
  bool ceilings_only = false;
};

// progress(what, done, total) is called from time to time; what it throws comes out: that is how to give up.
RooflineReport
measure_roofline(const RooflineRequest& request,
                 const std::function<void(std::string_view what, int64_t done, int64_t total)>& progress);

// Of the request's device: cuda or cpu. Throws Error where it asks for a GPU that is not usable.
engine::Device device_of(const RooflineRequest& request);

} // namespace ridge::measure
