// What measuring a roofline found.
#pragma once

#include "core/ceiling.h"
#include "measure/peaks/datasheet.h"
#include "measure/peaks/kept_peaks.h"
#include "measure/probe.h"

#include <optional>
#include <string>
#include <vector>

namespace ridge::measure {

// Where a point's time goes; the sum is all of it.
struct TimeParts {
  double memory_seconds = 0, compute_seconds = 0; // one of them: what bytes or operations take at the roof
  double latency_seconds = 0;                     // launching the kernels and starting their work
  double kernel_seconds = 0; // the rest, spent in them: unpacking, conversions, waiting, multiprocessors without work
};

struct RooflineReport {
  std::string device;  // "NVIDIA H200", "AMD EPYC, 2 threads"
  std::string model;   // whose shapes and steps were placed; empty: ceilings only
  std::string missing; // what could not be placed, and why; usually empty
  const Datasheet* datasheet = nullptr;
  std::vector<core::Ceiling> ceilings;
  std::vector<RooflinePoint> points;
  std::optional<KeptPeak> kept; // of memory reads, these ones included; nothing: none were kept

  double read() const;                                 // bytes per second: the roof, at its best so far
  double read_now() const;                             // as it was measured with the other ceilings
  bool disturbed() const;                              // that is far below the roof: something else used the memory
  double peak() const;                                 // of the products that prompts use
  std::string peak_name() const;                       // the ceiling that peak() is
  double step_latency() const;                         // seconds that a dependent step costs at least
  double memory_seconds(const RooflinePoint& p) const; // bytes at the roof; of vectors, which caches hold, at the L2's
  double floor_seconds(const RooflinePoint& p) const;  // the least time that the roofs, or dependent steps, allow
  TimeParts parts(const RooflinePoint& p) const;
  // It took less time than the roofs allow: these were measured while something else used the machine.
  bool above_roof(const RooflinePoint& p) const;
  // The largest part: "memory" or "compute", "latency", "kernel"; "disturbed" above the roof.
  std::string bound_by(const RooflinePoint& p) const;
};

// The ceilings of the GPU, or of so many threads of the CPU (0: all cores); nothing is placed. Seconds. Throws Error,
// or std::bad_alloc, where there is too little free memory (2 GB).
RooflineReport measure_machine(engine::Device on, int threads);

// What the maker says of a ceiling; nothing where it says nothing.
std::optional<double> datasheet_value(const Datasheet* sheet, const std::string& ceiling);

std::string roofline_svg(const RooflineReport& report);

} // namespace ridge::measure
