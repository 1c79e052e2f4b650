// The small float types of model files, as bit patterns, and their exact conversions to f32 (host and device).
// Sources: IEEE 754 binary16; bfloat16 is the upper half of a binary32; E8M0 and E4M3 as in the OCP MX
// specification 1.0.
#pragma once

#include "core/host_device.h"

#include <bit>
#include <cstdint>

namespace ridge::core {

RIDGE_HD float f32_from_bits(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

RIDGE_HD uint32_t bits_from_f32(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  return std::bit_cast<uint32_t>(value);
#endif
}

// The 32-bit word of two 16-bit halves: blocks of 16-bit alignment store 32-bit words this way.
RIDGE_HD uint32_t u32_from_halves(uint16_t low, uint16_t high) { return low | static_cast<uint32_t>(high) << 16; }

// IEEE binary16 -> binary32, exact for every input (subnormals, infinities and NaN payloads included).
RIDGE_HD float f32_from_f16(uint16_t h) {
  // Shift the 15 magnitude bits to where a binary32 has them; the multiplication by 2^112 re-biases the exponent and
  // normalizes subnormals in one step. Infinity and NaN come out as >= 65536 and get the full exponent.
  const uint32_t magnitude = static_cast<uint32_t>(h & 0x7fffu) << 13;
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  uint32_t bits = bits_from_f32(f32_from_bits(magnitude) * 0x1p112f);
  if ((h & 0x7c00u) == 0x7c00u) bits = magnitude | 0x7f800000u;
  return f32_from_bits(bits | sign);
}

// binary32 -> binary16, round to nearest even; overflow gives infinity, NaN stays NaN.
RIDGE_HD uint16_t f16_from_f32(float value) {
  const uint32_t bits = bits_from_f32(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) { // subnormal result: let the float adder do the rounding at 2^-24
    const float rounded = f32_from_bits(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (bits_from_f32(rounded) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

RIDGE_HD float f32_from_bf16(uint16_t b) { return f32_from_bits(static_cast<uint32_t>(b) << 16); }

// binary32 -> bfloat16, round to nearest even; NaN is made quiet.
RIDGE_HD uint16_t bf16_from_f32(float value) {
  const uint32_t bits = bits_from_f32(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// E4M3 (exponent bias 7, no infinities): a binary16 whose exponent counts from 8 less. Its NaN is read as 480.
RIDGE_HD float f32_from_e4m3(uint8_t bits) {
  return f32_from_f16(static_cast<uint16_t>((bits & 0x80) << 8 | (bits & 0x7f) << 7)) * 256;
}

// An IEEE binary16 in a file: the bits, read on use.
struct Half {
  uint16_t bits;
  RIDGE_HD operator float() const { return f32_from_f16(bits); }
};
static_assert(sizeof(Half) == 2);

// A binary32 in a block that is aligned to two bytes: its bits, low half first, read on use.
struct SplitFloat {
  uint16_t half[2];
  RIDGE_HD uint32_t bits() const { return u32_from_halves(half[0], half[1]); }
  RIDGE_HD operator float() const { return f32_from_bits(bits()); }
  RIDGE_HD static SplitFloat from(float value) {
    const uint32_t bits = bits_from_f32(value);
    return {{static_cast<uint16_t>(bits), static_cast<uint16_t>(bits >> 16)}};
  }
};
static_assert(sizeof(SplitFloat) == 4);

} // namespace ridge::core
