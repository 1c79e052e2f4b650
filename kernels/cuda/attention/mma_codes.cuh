// Codes of KV caches as operands of mma. Masks turn an unsigned code c into the f16 number c * 2^(shift - 24), below
// the normal ones, which mma multiplies exactly; shifts, scales and zeros are left to f32 and the other operand.
//
// Weights go up to 2^(kHeadroom + 2), so that times small scales they are normal f16 numbers, and times large ones
// finite. Types with more levels have smaller scales.
//
// mma's k index may run over elements in any order, if both operands do. So a lane's word of a key, and its unit of 16
// bits of two keys' values, fill the operand's registers (slots) as they come.
#pragma once

#include "core/kv_type.h"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {

inline constexpr float kSubnormal = 1.f / (1 << 24); // an f16 number with the bits of 1

// An element's place in the other operand of a key: lane t of four, slot, half of the slot.
struct SlotPlace {
  int t, slot, half;
};

// Eight codes in a word, pairs of elements in its halves. Slot i has the nibbles i of both halves.
struct FourBitOrder {
  static constexpr int kBits = 4, kWords = 1; // words of a block of 32 elements in each of four lanes
  static __device__ __forceinline__ SlotPlace place(int element) { return {element / 8, element % 8 / 2, element % 2}; }
  // Element of a value's block, by slot and unit of 16 bits.
  static __device__ __forceinline__ int column(int slot, int unit) { return unit / 2 * 8 + 2 * slot + unit % 2; }
};

struct NibbleCodes : FourBitOrder { // q4_0, q4_1
  static constexpr bool kHighBits = false, kMinima = true;
  static constexpr int kHeadroom = 2;
  static __device__ __forceinline__ core::KvType type(bool minima) {
    return minima ? core::KvType::q4_1 : core::KvType::q4_0;
  }
  static __device__ __forceinline__ int shift(int slot) { return slot % 2 * 4; } // of the factor
  static __device__ __forceinline__ void unpack(uint32_t (&slots)[4], const uint32_t (&word)[1], uint32_t) {
    const uint32_t x = word[0], y = x >> 8;
    slots[0] = x & 0x000f000f, slots[1] = x & 0x00f000f0;
    slots[2] = y & 0x000f000f, slots[3] = y & 0x00f000f0;
  }
};

struct FiveBitCodes : FourBitOrder { // q5_0, q5_1
  static constexpr bool kHighBits = true, kMinima = true;
  static constexpr int kHeadroom = 2;
  static __device__ __forceinline__ core::KvType type(bool minima) {
    return minima ? core::KvType::q5_1 : core::KvType::q5_0;
  }
  static __device__ __forceinline__ int shift(int slot) { return slot; }
  // `high`: the fifth bits of slot i at bit 4 + i of each half.
  static __device__ __forceinline__ void unpack(uint32_t (&slots)[4], const uint32_t (&word)[1], uint32_t high) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      slots[i] = (word[0] >> 3 * i & 0x000f000f << i) | (high & 0x00100010 << i); // nibbles move below fifth bits
  }
};

struct LevelCodes : FourBitOrder { // iq4_nl
  static constexpr bool kHighBits = false, kMinima = false;
  static constexpr int kHeadroom = 6;
  static __device__ __forceinline__ core::KvType type(bool) { return core::KvType::iq4_nl; }
  static __device__ __forceinline__ int shift(int) { return 0; }
  static __device__ __forceinline__ void unpack(uint32_t (&slots)[4], const uint32_t (&word)[1], uint32_t) {
    // Levels + 128 in tables of eight, by the nibbles' low bits, then the choice between them by the highest.
    const uint32_t low_bits = word[0] & 0x77777777, choices = (word[0] >> 1 & 0x44444444) | 0x32103210;
    const auto look_up = [](uint32_t at, uint32_t choice) {
      return __byte_perm(__byte_perm(0x3f2d1801, 0x766a5d4f, at), __byte_perm(0xa6998d81, 0xf1d9c5b5, at), choice);
    };
    const uint32_t first = look_up(low_bits, choices), second = look_up(low_bits >> 16, choices >> 16);
    const uint32_t x = __byte_perm(first, second, 0x5410), y = __byte_perm(first, second, 0x7632);
    slots[0] = x & 0x00ff00ff, slots[1] = __byte_perm(x, 0, 0x4341);
    slots[2] = y & 0x00ff00ff, slots[3] = __byte_perm(y, 0, 0x4341);
  }
};

struct ByteCodes { // q8_0
  static constexpr int kBits = 8, kWords = 2;
  static constexpr bool kHighBits = false, kMinima = false;
  static constexpr int kHeadroom = 6;
  static __device__ __forceinline__ core::KvType type(bool) { return core::KvType::q8_0; }
  static __device__ __forceinline__ SlotPlace place(int element) {
    return {element % 16 / 4, element / 16 * 2 + element % 2, element % 4 / 2};
  }
  static __device__ __forceinline__ int column(int slot, int unit) { return 16 * (slot / 2) + 2 * unit + slot % 2; }
  static __device__ __forceinline__ int shift(int) { return 0; }
  static __device__ __forceinline__ void unpack(uint32_t (&slots)[4], const uint32_t (&words)[2], uint32_t) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t x = words[i] ^ 0x80808080; // codes + 128
      slots[2 * i] = x & 0x00ff00ff, slots[2 * i + 1] = __byte_perm(x, 0, 0x4341);
    }
  }
};

// The code of zero, for types without minima.
__device__ __forceinline__ float zero_code(core::KvType type) {
  return type == core::KvType::q4_0 ? 8 : type == core::KvType::q5_0 ? 16 : 128;
}

} // namespace ridge::kernels::cuda
