// Random numbers that are a function of their place: number `index` of a seed. The CPU and the GPU compute the same
// ones, the same on every platform, and a token that is not wanted in the end shifts no other's.
#pragma once

#include "core/host_device.h"

#include <cstdint>

namespace ridge::core {

// The finalizer of splitmix64 (Stafford's variant 13): a bijection that passes statistical tests on counters.
RIDGE_HD uint64_t mix_bits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Uniform in [0, 1), a multiple of 2^-53.
RIDGE_HD double uniform(uint64_t seed, uint64_t index) {
  return static_cast<double>(mix_bits(mix_bits(seed) + (index + 1) * 0x9e3779b97f4a7c15ull) >> 11) * 0x1p-53;
}

} // namespace ridge::core
