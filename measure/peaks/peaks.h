// The two roofs of a device: what it reads from memory and how fast it multiplies, measured in this process.
#pragma once

#include "core/ceiling.h"
#include "engine/loaded_model.h"
#include "measure/peaks/datasheet.h"

#include <optional>

namespace ridge::measure {

class Peaks {
 public:
  explicit Peaks(const engine::LoadedModel& model) : model_(model) {} // its executor is there

  double read_bytes_per_second() const { return engine::measure_read_bandwidth(model_); } // anew each time
  // The fastest way to multiply that prompts use: tensor cores (f16), on the CPU int8 dots. Measured once.
  const core::Ceiling& products();
  const Datasheet* datasheet() const; // null: unknown, or not on the GPU alone

 private:
  const engine::LoadedModel& model_;
  std::optional<core::Ceiling> products_;
};

} // namespace ridge::measure
