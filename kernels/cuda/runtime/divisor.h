// Division by a number that the host knows. On the GPU a division takes some 20 instructions that wait for one another,
// and a kernel of ten microseconds has to begin quickly.
#pragma once

#include "core/host_device.h"

#include <cstdint>

namespace ridge::kernels::cuda {

struct Divisor {
  int by = 1;
  uint32_t factor = 0; // 2^32 / by, rounded up; 0 for by = 1

  Divisor() = default;
  explicit Divisor(int64_t divisor)
      : by(static_cast<int>(divisor)), factor(divisor == 1 ? 0 : 0xffffffff / static_cast<uint32_t>(divisor) + 1) {}

  // number / by, where number * by < 2^32 and number is not negative.
  RIDGE_HD int quotient(int number) const {
    const auto above = static_cast<int>(uint64_t{factor} * static_cast<uint32_t>(number) >> 32);
    return factor == 0 ? number : above;
  }
};

} // namespace ridge::kernels::cuda
