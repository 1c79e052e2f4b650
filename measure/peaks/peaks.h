// Memory bandwidth and multiplication rate, measured in this process.
#pragma once

#include "core/ceiling.h"
#include "engine/loading/loaded_model.h"
#include "measure/peaks/datasheet.h"

#include <optional>

namespace ridge::measure {

class Peaks {
 public:
  explicit Peaks(const engine::LoadedModel& model) : model_(model) {} // requires its executor

  double read_bytes_per_second() const { return engine::measure_read_bandwidth(model_); } // measures each time
  // Prefill rate: tensor cores (f16), or int8 dots on the CPU. Measured once.
  const core::Ceiling& products();
  const Datasheet* datasheet() const; // null: unknown, or not only GPU

 private:
  const engine::LoadedModel& model_;
  std::optional<core::Ceiling> products_;
};

} // namespace ridge::measure
