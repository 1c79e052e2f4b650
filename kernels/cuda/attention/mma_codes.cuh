// Codes of KV caches as operands of mma. Masks turn an unsigned code c into the f16 number c * factor * 2^-24, below
// the normal ones, which mma multiplies exactly; factors, scales and zeros are left to f32 and the other operand.
//
// mma's k index may run over elements in any order, if both operands do. So a lane's word of a key, and its unit of 16
// bits of two keys' values, fill the operand's registers (slots) as they come.
#pragma once

#include "core/kv_type.h"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {

inline constexpr float kSubnormal = 1.f / (1 << 24); // an f16 number with the bits of 1

// Eight codes in a word, pairs of elements in its halves. Slot i has the nibbles i of both halves.
struct FourBitOrder {
  static constexpr int kBits = 4, kWords = 1; // words of a block of 32 elements in each of four lanes
  // Element of a block, by slot, half of the slot and lane of the key.
  static __device__ __forceinline__ constexpr int element(int slot, int half, int t) { return 8 * t + 2 * slot + half; }
  // The same, by slot and unit of 16 bits.
  static __device__ __forceinline__ constexpr int column(int slot, int unit) {
    return unit / 2 * 8 + 2 * slot + unit % 2;
  }
};

struct NibbleCodes : FourBitOrder { // q4_0, q4_1
  static constexpr bool kHighBits = false, kMinima = true;
  static __device__ __forceinline__ constexpr int factor(int slot) { return slot % 2 ? 16 : 1; }
  static __device__ __forceinline__ void unpack(uint32_t (&slots)[4], const uint32_t (&word)[1], uint32_t) {
    const uint32_t x = word[0], y = x >> 8;
    slots[0] = x & 0x000f000f, slots[1] = x & 0x00f000f0;
    slots[2] = y & 0x000f000f, slots[3] = y & 0x00f000f0;
  }
};

// Fifth bits of slots: from bit 4 on of each half.
struct FiveBitCodes : FourBitOrder { // q5_0, q5_1
  static constexpr bool kHighBits = true, kMinima = true;
  static __device__ __forceinline__ constexpr int factor(int slot) { return 1 << slot; }
  static __device__ __forceinline__ void unpack(uint32_t (&slots)[4], const uint32_t (&word)[1], uint32_t high) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      slots[i] =
          (word[0] >> 3 * i & 0x000f000f << i) | (high & 0x00100010 << i); // the nibble moves below its fifth bit
  }
};

struct LevelCodes : FourBitOrder { // iq4_nl
  static constexpr bool kHighBits = false, kMinima = false;
  static __device__ __forceinline__ constexpr int factor(int) { return 1; }
  static __device__ __forceinline__ void unpack(uint32_t (&slots)[4], const uint32_t (&word)[1], uint32_t) {
    // Levels + 128 in tables of eight, by the nibbles' low bits, then the choice between them by the highest.
    const uint32_t low_bits = word[0] & 0x77777777, choices = (word[0] >> 1 & 0x44444444) | 0x32103210;
    const auto look_up = [](uint32_t at, uint32_t choice) {
      return __byte_perm(__byte_perm(0x3f2d1801, 0x766a5d4f, at), __byte_perm(0xa6998d81, 0xf1d9c5b5, at), choice);
    };
    const uint32_t first = look_up(low_bits, choices), second = look_up(low_bits >> 16, choices >> 16);
    const uint32_t x = __byte_perm(first, second, 0x5410), y = __byte_perm(first, second, 0x7632);
    slots[0] = x & 0x00ff00ff, slots[1] = x >> 8 & 0x00ff00ff;
    slots[2] = y & 0x00ff00ff, slots[3] = y >> 8 & 0x00ff00ff;
  }
};

struct ByteCodes { // q8_0
  static constexpr int kBits = 8, kWords = 2;
  static constexpr bool kHighBits = false, kMinima = false;
  static __device__ __forceinline__ constexpr int element(int slot, int half, int t) {
    return 16 * (slot / 2) + 4 * t + slot % 2 + 2 * half;
  }
  static __device__ __forceinline__ constexpr int column(int slot, int unit) {
    return 16 * (slot / 2) + 2 * unit + slot % 2;
  }
  static __device__ __forceinline__ constexpr int factor(int) { return 1; }
  static __device__ __forceinline__ void unpack(uint32_t (&slots)[4], const uint32_t (&words)[2], uint32_t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) slots[i] = (words[i / 2] >> 8 * (i % 2) & 0x00ff00ff) ^ 0x00800080; // code + 128
  }
};

// The code of zero, for types without minima.
__device__ __forceinline__ float zero_code(core::KvType type) {
  return type == core::KvType::q4_0 ? 8 : type == core::KvType::q5_0 ? 16 : 128;
}

} // namespace ridge::kernels::cuda
