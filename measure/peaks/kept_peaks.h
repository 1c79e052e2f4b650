// Best bandwidths per device, in $XDG_STATE_HOME/ridge: other programs may disturb a new measurement.
#pragma once

#include "engine/loading/loaded_model.h"

#include <optional>
#include <string>

namespace ridge::measure {

struct StoredPeak {
  double best = 0, least = 0; // bytes per second, recent measurements
  int times = 0;              // number of measurements
};

// "NVIDIA H200", "AMD EPYC 9354, 2 threads, AVX3"; threads 0: all cores.
std::string device_name(engine::Device on, int threads);

// nullopt if not stored. Never measures.
std::optional<StoredPeak> stored_read_peak(const std::string& device);
// Ignores write errors.
void keep_read_peak(const std::string& device, double bytes_per_second);

double measure_and_keep_read_peak(engine::Device on, int threads);

} // namespace ridge::measure
