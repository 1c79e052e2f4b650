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
  using kernels::cpu::ByteDots;
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  for (int64_t rest = usable; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    hwy::SetSupportedTargetsForTest(target);
    const std::string name = hwy::TargetName(target);
    CAPTURE(name);
    for (const ByteDots dots : {ByteDots::basic, ByteDots::dotprod, ByteDots::i8mm, ByteDots::amx}) {
      if (!kernels::cpu::has_byte_dots(dots) || (dots == ByteDots::amx && target != HWY_AVX3_DL)) continue;
      kernels::cpu::use_byte_dots(dots);
      CAPTURE(static_cast<int>(dots));
      run();
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

} // namespace ridge::tests
