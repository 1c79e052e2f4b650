// How a GPU test ends where there is no GPU: with a word, and without failing.
#pragma once

#include "kernels/cuda/executor.h"

#include <doctest/doctest.h>

#define REQUIRE_DEVICE()                                                                                               \
  if (!ridge::kernels::cuda::device_info().usable) {                                                                   \
    MESSAGE("skipped: no CUDA device");                                                                                \
    return;                                                                                                            \
  }                                                                                                                    \
  static_assert(true)
