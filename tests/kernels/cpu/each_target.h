// Instruction sets compiled into the CPU kernels.
#pragma once

#include "kernels/cpu/formats/byte_dots.h"
#include "kernels/cpu/formats/targets.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

namespace ridge::tests {

// Runs once per target that this CPU supports.
template <typename Run>
void for_each_target(const Run& run) {
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  for (int64_t rest = usable; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    hwy::SetSupportedTargetsForTest(target);
    const std::string name = hwy::TargetName(target);
    CAPTURE(name);
    for (int dots = 0; dots <= static_cast<int>(kernels::cpu::best_byte_dots()); ++dots) {
      kernels::cpu::use_byte_dots(static_cast<kernels::cpu::ByteDots>(dots));
      CAPTURE(dots);
      run();
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

} // namespace ridge::tests
