// Exact conversions of small floats on host and device: IEEE 754 binary16, bfloat16, E8M0 and E4M3 of OCP MX 1.0.
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

// For 32-bit words that are aligned to 16 bits.
RIDGE_HD uint32_t u32_from_halves(uint16_t low, uint16_t high) { return low | static_cast<uint32_t>(high) << 16; }

// Exact also for subnormals, infinities and NaN payloads.
RIDGE_HD float f32_from_f16(uint16_t h) {
  // The product with 2^112 re-biases the exponent and normalizes subnormals. Infinity and NaN give >= 65536 and get the
  // full exponent.
  const uint32_t magnitude = static_cast<uint32_t>(h & 0x7fffu) << 13;
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  uint32_t bits = bits_from_f32(f32_from_bits(magnitude) * 0x1p112f);
  if ((h & 0x7c00u) == 0x7c00u) bits = magnitude | 0x7f800000u;
  return f32_from_bits(bits | sign);
}

// Rounds to nearest even; overflow gives infinity.
RIDGE_HD uint16_t f16_from_f32(float value) {
  const uint32_t bits = bits_from_f32(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) { // subnormal: the float adder rounds
    const float rounded = f32_from_bits(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (bits_from_f32(rounded) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

RIDGE_HD float f32_from_bf16(uint16_t b) { return f32_from_bits(static_cast<uint32_t>(b) << 16); }

// Rounds to nearest even; NaN becomes quiet.
RIDGE_HD uint16_t bf16_from_f32(float value) {
  const uint32_t bits = bits_from_f32(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// E4M3 (bias 7, no infinities) is a binary16 with an exponent 8 lower. NaN reads as 480.
RIDGE_HD float f32_from_e4m3(uint8_t bits) {
  return f32_from_f16(static_cast<uint16_t>((bits & 0x80) << 8 | (bits & 0x7f) << 7)) * 256;
}

// binary16 in a file.
struct Half {
  uint16_t bits;
  RIDGE_HD operator float() const { return f32_from_f16(bits); }
};
static_assert(sizeof(Half) == 2);

// binary32 aligned to 16 bits.
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
