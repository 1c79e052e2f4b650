// Best measured bandwidths per device, stored in $XDG_STATE_HOME/ridge: saves a measurement, and corrects for those
// taken beside other programs.
#pragma once

#include "engine/loaded_model.h"

#include <optional>
#include <string>

namespace ridge::measure {

struct KeptPeak {
  double best = 0, least = 0; // bytes per second, recent measurements
  int times = 0;              // number of measurements
};

// "NVIDIA H200", "AMD EPYC 9354, 2 threads, AVX3". threads 0: all cores.
std::string device_name(engine::Device on, int threads);

// Read bandwidth; nullopt if not stored. Does not measure.
std::optional<KeptPeak> kept_read_peak(const std::string& device);
// Ignores write errors.
void keep_read_peak(const std::string& device, double bytes_per_second);

// Like engine::measure_read_bandwidth(), and stores the result.
double measure_and_keep_read_peak(engine::Device on, int threads);

} // namespace ridge::measure
