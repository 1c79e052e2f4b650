// Planes of codes: the integers of an item without their scales.
#pragma once

#include "kernels/cuda/layout_base.cuh"
#include "quant/formats/iq4_nl.h"
#include "quant/formats/mxfp4.h"

namespace ridge::kernels::cuda {

// Codes of kBits bits each, 0 ≤ code < 2^kBits (eight bits: signed).
template <int kBits>
struct Codes {
  static constexpr int kBytes = 4 * kBits; // per item
  static constexpr bool kFour = (kBits & 4) != 0, kTwo = (kBits & 2) != 0, kOne = (kBits & 1) != 0;
  static constexpr int kFourBytes = kFour ? 16 : 0, kTwoBytes = kTwo ? 8 : 0;
  static constexpr int kTwoShift = kFour ? 4 : 0, kOneShift = kTwoShift + (kTwo ? 2 : 0);

  // Byte 4k + i of the four-bit plane holds code 8k + i low and code 8k + 4 + i high; byte 4k + i of the two-bit plane
  // codes 16k + i, +4, +8, +12 from the lowest bits up; byte i of the one-bit plane codes i, i+4, … i+28.
  static __device__ void store(const uint8_t (&code)[32], uint8_t* unit, int items, int item) {
    if constexpr (kBits == 8) {
      for (int i = 0; i < 32; ++i) unit[(i / 16) * 16 * items + 16 * item + i % 16] = code[i];
      return;
    }
    if constexpr (kFour)
      for (int i = 0; i < 16; ++i) {
        const int first = i / 4 * 8 + i % 4;
        unit[16 * item + i] = static_cast<uint8_t>((code[first] & 15) | (code[first + 4] & 15) << 4);
      }
    if constexpr (kTwo)
      for (int i = 0; i < 8; ++i) {
        int byte = 0;
        for (int j = 0; j < 4; ++j) byte |= ((code[i / 4 * 16 + i % 4 + 4 * j] >> kTwoShift) & 3) << (2 * j);
        unit[kFourBytes * items + 8 * item + i] = static_cast<uint8_t>(byte);
      }
    if constexpr (kOne)
      for (int i = 0; i < 4; ++i) {
        int byte = 0;
        for (int j = 0; j < 8; ++j) byte |= ((code[i + 4 * j] >> kOneShift) & 1) << j;
        unit[(kFourBytes + kTwoBytes) * items + 4 * item + i] = static_cast<uint8_t>(byte);
      }
  }

  static __device__ __forceinline__ uint32_t shifted(uint32_t word, int left) { // folds to one shift
    return left >= 0 ? word << left : word >> -left;
  }

  static constexpr int kWords = kBits;

  static __device__ __forceinline__ void fetch(uint32_t (&raw)[kWords], const uint8_t* unit, int items, int item) {
    if constexpr (kBits == 8)
      for (int half = 0; half < 2; ++half)
        put(raw + 4 * half, *reinterpret_cast<const uint4*>(unit + half * 16 * items + 16 * item));
    if constexpr (kFour) put(raw, *reinterpret_cast<const uint4*>(unit + 16 * item));
    if constexpr (kTwo) {
      const uint2 piece = *reinterpret_cast<const uint2*>(unit + kFourBytes * items + 8 * item);
      raw[kFourBytes / 4] = piece.x;
      raw[kFourBytes / 4 + 1] = piece.y;
    }
    if constexpr (kOne) raw[kWords - 1] = word_at(unit + (kFourBytes + kTwoBytes) * items + 4 * item);
  }

  static __device__ __forceinline__ void unpack(uint32_t (&word)[8], const uint32_t (&raw)[kWords]) {
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      word[k] = kBits == 8 ? raw[k % kWords] : 0;
      if constexpr (kFour) word[k] = raw[k / 2] >> (4 * (k % 2)) & 0x0f0f0f0f;
      if constexpr (kTwo)
        word[k] |= shifted(raw[kFourBytes / 4 + k / 4], kTwoShift - 2 * (k % 4)) & (0x03030303u << kTwoShift);
      if constexpr (kOne) word[k] |= shifted(raw[kWords - 1], kOneShift - k) & (0x01010101u << kOneShift);
    }
  }
};

// Codes 1 and -1 as the bits 1 and 0.
struct SignCodes : Codes<1> {
  static __device__ void store(const uint8_t (&code)[32], uint8_t* unit, int items, int item) {
    uint8_t bit[32];
    for (int i = 0; i < 32; ++i) bit[i] = code[i] == 1;
    Codes<1>::store(bit, unit, items, item);
  }
};

// Four-bit codes that index a table of 16 levels, which become the codes.
template <typename Levels>
struct LevelCodes {
  static constexpr int kBytes = 16;

  static __device__ void store(const uint8_t (&code)[32], uint8_t* unit, int items, int item) {
    uint8_t index[32];
    for (int i = 0; i < 32; ++i) {
      index[i] = 0;
      for (int level = 0; level < 16; ++level)
        if (Levels::at(level) == static_cast<int8_t>(code[i])) index[i] = static_cast<uint8_t>(level);
    }
    Codes<4>::store(index, unit, items, item);
  }

  // Eight levels from eight nibbles: `prmt` looks four of them up in eight bytes by three bits; the fourth bit, moved
  // to select bit 3 of a second permute, chooses between the two halves of the table.
  static __device__ __forceinline__ void look_up(uint32_t nibbles, uint32_t& low, uint32_t& high) {
    constexpr uint32_t t0 = Levels::word(0), t1 = Levels::word(1), t2 = Levels::word(2), t3 = Levels::word(3);
    const uint32_t choose = (0x32103210 | (nibbles & 0x88888888) >> 1); // 0-3: lower half, 4-7: upper half
    uint32_t found[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const uint32_t index = (k ? nibbles >> 16 : nibbles) & 0x7777;
      const uint32_t lower = __byte_perm(t0, t1, index), upper = __byte_perm(t2, t3, index);
      found[k] = __byte_perm(lower, upper, k ? choose >> 16 : choose);
    }
    // found: the nibbles in their order n0 … n7; the low nibbles of the bytes are the even ones
    low = __byte_perm(found[0], found[1], 0x6420);
    high = __byte_perm(found[0], found[1], 0x7531);
  }

  static constexpr int kWords = 4;
  static __device__ __forceinline__ void fetch(uint32_t (&raw)[kWords], const uint8_t* unit, int, int item) {
    put(raw, *reinterpret_cast<const uint4*>(unit + 16 * item));
  }
  static __device__ __forceinline__ void unpack(uint32_t (&word)[8], const uint32_t (&raw)[kWords]) {
#pragma unroll
    for (int k = 0; k < 4; ++k) look_up(raw[k], word[2 * k], word[2 * k + 1]);
  }
};

struct Iq4Levels {
  static constexpr int8_t kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  static constexpr uint32_t word(int k) {
    return static_cast<uint8_t>(kLevels[4 * k]) | static_cast<uint8_t>(kLevels[4 * k + 1]) << 8 |
           static_cast<uint8_t>(kLevels[4 * k + 2]) << 16 |
           static_cast<uint32_t>(static_cast<uint8_t>(kLevels[4 * k + 3])) << 24;
  }
  static __device__ int8_t at(int level) { return quant::kIq4Levels[level]; }
};

struct E2m1Levels { // doubled
  static constexpr uint32_t word(int k) {
    constexpr uint32_t kWords[4] = {0x03020100, 0x0c080604, 0xfdfeff00, 0xf4f8fafc};
    return kWords[k];
  }
  static __device__ int8_t at(int level) { return quant::doubled_e2m1(level); }
};

} // namespace ridge::kernels::cuda
