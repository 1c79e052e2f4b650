// The two roofs of a device: what it reads from memory and how fast it multiplies, measured in this process.
#pragma once

#include "app/datasheet.h"
#include "app/loaded_model.h"
#include "core/ceiling.h"

#include <optional>

namespace ridge::app {

class Peaks {
 public:
  // threads: of the CPU, 0 for all cores.
  Peaks(Device device, int threads) : device_(device), threads_(threads) {}

  double read_bytes_per_second() const; // measured anew each time
  // The fastest way to multiply that prompts use: tensor cores (f16), on the CPU int8 dots. Measured once.
  const core::Ceiling& products();
  const Datasheet* datasheet() const; // null: unknown

 private:
  Device device_;
  int threads_;
  std::optional<core::Ceiling> products_;
};

} // namespace ridge::app
