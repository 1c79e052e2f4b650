#pragma once

#include "core/ceiling.h"
#include "measure/peaks/datasheet.h"
#include "measure/peaks/kept_peaks.h"
#include "measure/probe.h"

#include <optional>
#include <string>
#include <vector>

namespace ridge::measure {

// Parts of a point's time; they add up to it.
struct TimeParts {
  double memory_seconds = 0, compute_seconds = 0; // one is 0
  double latency_seconds = 0;                     // kernel launches
  double kernel_seconds = 0;                      // the rest: unpacking, conversions, waiting
};

struct RooflineReport {
  std::string device;  // "NVIDIA H200", "AMD EPYC, 2 threads"
  std::string model;   // empty: ceilings only
  std::string missing; // points not measured, and why
  const Datasheet* datasheet = nullptr;
  std::vector<core::Ceiling> ceilings;
  std::vector<RooflinePoint> points;
  std::optional<StoredPeak> kept; // including this run

  double read() const;     // best so far: the roof
  double read_now() const; // in this run
  bool disturbed() const;  // read_now() far below read()
  double peak() const;     // of prefill products
  std::string peak_name() const;
  double step_latency() const;                         // per dependent step
  double memory_seconds(const RooflinePoint& p) const; // at the roof; vector ops at L2 bandwidth
  double floor_seconds(const RooflinePoint& p) const;  // lower bound
  TimeParts parts(const RooflinePoint& p) const;
  // Faster than the roofs: other load lowered them.
  bool above_roof(const RooflinePoint& p) const;
  // The largest part: "memory", "compute", "latency", "kernel"; "disturbed" above the roof.
  std::string bound_by(const RooflinePoint& p) const;
};

// Ceilings only; threads 0: all cores. Throws Error or std::bad_alloc without 2 GB free.
RooflineReport measure_machine(engine::Device on, int threads);

// nullopt if not published.
std::optional<double> datasheet_value(const Datasheet* sheet, const std::string& ceiling);

std::string roofline_svg(const RooflineReport& report);

} // namespace ridge::measure
