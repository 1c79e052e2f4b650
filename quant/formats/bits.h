// Branch-free operations on eight codes in a 64-bit word, lowest byte first. Assumes little endian.
#pragma once

#include "core/host_device.h"

#include <cstdint>
#include <cstring>

namespace ridge::quant {

inline constexpr uint64_t kEachByte = 0x0101010101010101; // times x: x in all bytes

RIDGE_HD void store8(int8_t* code, uint64_t word) { std::memcpy(code, &word, 8); }

// Byte j is 0xff where bit j is set.
RIDGE_HD uint64_t byte_mask(uint8_t bits) {
  const uint64_t each_bit = bits * kEachByte & 0x8040201008040201;
  const uint64_t ones = (each_bit + kEachByte * 0x7f) >> 7 & kEachByte;
  return (ones << 8) - ones;
}

RIDGE_HD uint64_t spread_2_bits(uint8_t first, uint8_t second) {
  uint64_t x = first | static_cast<uint64_t>(second) << 32;
  x = (x | x << 12) & 0x000f000f000f000f;
  return (x | x << 6) & 0x0303030303030303;
}

// codes: 1 to 127.
RIDGE_HD uint64_t with_signs(uint64_t codes, uint8_t signs) {
  const uint64_t mask = byte_mask(signs);
  return (codes ^ mask) + (mask & kEachByte); // no carry: a code is never 0
}

// The eighth sign makes the number of minus signs even.
RIDGE_HD uint8_t eight_signs(uint32_t bits) {
  const uint32_t seven = bits & 127;
  const uint32_t odd = 0x6996u >> ((seven ^ seven >> 4) & 15) & 1; // parities of 0 to 15
  return static_cast<uint8_t>(seven | odd << 7);
}

} // namespace ridge::quant
