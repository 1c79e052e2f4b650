// How a GPU test ends where there is no GPU: with a word, and without failing. Where there is one that cannot be used
// (no driver, a build without CUDA) it fails.
#pragma once

#include "kernels/cuda/executor.h"

#include <doctest/doctest.h>

#include <filesystem>

namespace ridge::tests {

inline bool have_gpu() { // the driver's files are there, whatever it says when it is asked
  for (int i = 0; i < 16; ++i)
    if (std::filesystem::exists("/dev/nvidia" + std::to_string(i))) return true;
  return false;
}

} // namespace ridge::tests

#define REQUIRE_DEVICE()                                                                                               \
  if (const auto info = ridge::kernels::cuda::device_info(); !info.usable) {                                           \
    REQUIRE_MESSAGE(!ridge::tests::have_gpu(), "there is a GPU, but: ", info.problem);                                 \
    MESSAGE("skipped: no CUDA device");                                                                                \
    return;                                                                                                            \
  }                                                                                                                    \
  static_assert(true)
