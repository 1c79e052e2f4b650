// Division by a number that the host knows: a GPU division is a chain of some 20 instructions.
#pragma once

#include "core/host_device.h"

#include <cstdint>

namespace ridge::kernels::cuda {

struct Divisor {
  int by = 1;
  uint32_t factor = 0; // 2^32 / by, rounded up; 0 for 1

  Divisor() = default;
  explicit Divisor(int64_t divisor)
      : by(static_cast<int>(divisor)), factor(divisor == 1 ? 0 : 0xffffffff / static_cast<uint32_t>(divisor) + 1) {}

  // Requires number >= 0 and number * by < 2^32.
  RIDGE_HD int quotient(int number) const {
    const auto above = static_cast<int>(uint64_t{factor} * static_cast<uint32_t>(number) >> 32);
    return factor == 0 ? number : above;
  }
};

} // namespace ridge::kernels::cuda
