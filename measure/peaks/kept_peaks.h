// What devices of this machine gave at their best, kept from one program to the next in $XDG_STATE_HOME/ridge: a
// measurement beside other programs gives less, and none is waited for where an earlier one is known.
#pragma once

#include "engine/loaded_model.h"

#include <optional>
#include <string>

namespace ridge::measure {

struct KeptPeak {
  double best = 0, least = 0; // bytes per second, of the last measurements
  int times = 0;              // how many these are
};

// The device as reports name it: "NVIDIA H200", "AMD EPYC 9354, 2 threads, AVX3". threads 0: all cores.
std::string device_name(engine::Device on, int threads);

// Memory reads of the device; nothing where none was measured. Never measures.
std::optional<KeptPeak> kept_read_peak(const std::string& device);
// Adds a measurement. Where the file cannot be written, it is lost.
void keep_read_peak(const std::string& device, double bytes_per_second);

// engine::measure_read_bandwidth(), anew and kept.
double measure_and_keep_read_peak(engine::Device on, int threads);

} // namespace ridge::measure
