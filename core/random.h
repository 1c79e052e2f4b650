// Counter-based random numbers, equal on all platforms. Unused draws do not shift others.
#pragma once

#include "core/host_device.h"

#include <cstdint>

namespace ridge::core {

// Finalizer of splitmix64 (Stafford's variant 13).
RIDGE_HD uint64_t mix_bits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Returns a multiple of 2^-53 in [0, 1).
RIDGE_HD double uniform(uint64_t seed, uint64_t index) {
  return static_cast<double>(mix_bits(mix_bits(seed) + (index + 1) * 0x9e3779b97f4a7c15ull) >> 11) * 0x1p-53;
}

} // namespace ridge::core
