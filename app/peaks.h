// The two roofs of a device: what it reads from memory and how fast it multiplies, measured in this process.
#pragma once

#include "app/datasheet.h"
#include "app/loaded_model.h"
#include "core/ceiling.h"

#include <optional>

namespace ridge::app {

class Peaks {
 public:
  explicit Peaks(const LoadedModel& model) : model_(model) {} // its executor is there

  double read_bytes_per_second() const { return measure_read_bandwidth(model_); } // anew each time
  // The fastest way to multiply that prompts use: tensor cores (f16), on the CPU int8 dots. Measured once.
  const core::Ceiling& products();
  const Datasheet* datasheet() const; // null: unknown, or not on the GPU alone

 private:
  const LoadedModel& model_;
  std::optional<core::Ceiling> products_;
};

} // namespace ridge::app
