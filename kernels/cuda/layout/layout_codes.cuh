// Planes of codes: a group's integers without scales.
#pragma once

#include "kernels/cuda/layout/layout_base.cuh"
#include "quant/formats/iq4_nl.h"
#include "quant/formats/mxfp4.h"

namespace ridge::kernels::cuda {

// 0 ≤ code < 2^kBits (eight bits: signed).
template <int kBits_>
struct Codes {
  static constexpr int kBits = kBits_, kBytes = 4 * kBits;
  static constexpr bool kSigned = kBits == 8;
  static constexpr bool kFour = (kBits & 4) != 0, kTwo = (kBits & 2) != 0, kOne = (kBits & 1) != 0;
  static constexpr int kFourBytes = kFour ? 16 : 0, kTwoBytes = kTwo ? 8 : 0;
  static constexpr int kTwoShift = kFour ? 4 : 0, kOneShift = kTwoShift + (kTwo ? 2 : 0);

  // Byte 4k + i of the four-bit plane: codes 8k + i, 8k + 4 + i; of the two-bit plane: 16k + i, +4, +8, +12 from the
  // lowest bits; byte i of the one-bit plane: i, i+4, … i+28.
  static __device__ void store(const uint8_t (&code)[32], uint8_t* tile, int groups, int group) {
    if constexpr (kBits == 8) {
      for (int i = 0; i < 32; ++i) tile[(i / 16) * 16 * groups + 16 * group + i % 16] = code[i];
      return;
    }
    if constexpr (kFour)
      for (int i = 0; i < 16; ++i) {
        const int first = i / 4 * 8 + i % 4;
        tile[16 * group + i] = static_cast<uint8_t>((code[first] & 15) | (code[first + 4] & 15) << 4);
      }
    if constexpr (kTwo)
      for (int i = 0; i < 8; ++i) {
        int byte = 0;
        for (int j = 0; j < 4; ++j) byte |= ((code[i / 4 * 16 + i % 4 + 4 * j] >> kTwoShift) & 3) << (2 * j);
        tile[kFourBytes * groups + 8 * group + i] = static_cast<uint8_t>(byte);
      }
    if constexpr (kOne)
      for (int i = 0; i < 4; ++i) {
        int byte = 0;
        for (int j = 0; j < 8; ++j) byte |= ((code[i + 4 * j] >> kOneShift) & 1) << j;
        tile[(kFourBytes + kTwoBytes) * groups + 4 * group + i] = static_cast<uint8_t>(byte);
      }
  }

  static __device__ __forceinline__ uint32_t shifted(uint32_t word, int left) {
    return left >= 0 ? word << left : word >> -left;
  }

  static constexpr int kWords = kBits;

  static __device__ __forceinline__ void fetch(uint32_t (&raw)[kWords], const uint8_t* tile, int groups, int group) {
    if constexpr (kBits == 8)
      for (int half = 0; half < 2; ++half)
        put(raw + 4 * half, *reinterpret_cast<const uint4*>(tile + half * 16 * groups + 16 * group));
    if constexpr (kFour) put(raw, *reinterpret_cast<const uint4*>(tile + 16 * group));
    if constexpr (kTwo) {
      const uint2 piece = *reinterpret_cast<const uint2*>(tile + kFourBytes * groups + 8 * group);
      raw[kFourBytes / 4] = piece.x;
      raw[kFourBytes / 4 + 1] = piece.y;
    }
    if constexpr (kOne) raw[kWords - 1] = word_at(tile + (kFourBytes + kTwoBytes) * groups + 4 * group);
  }

  using Lut = NoLut;
  static __device__ __forceinline__ void unpack(uint32_t (&word)[8], const uint32_t (&raw)[kWords], NoLut) {
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

// Codes 0 and 2 as bits. A group's word adjoins those of groups four before and after: lane % 4 has its words of a
// binary product (matvec_bits.cuh) together.
struct SignCodes : Codes<1> {
  static __device__ __forceinline__ int place(int groups, int group) { return group % 4 * (groups / 4) + group / 4; }
  static __device__ void store(const uint8_t (&code)[32], uint8_t* tile, int groups, int group) {
    uint8_t bit[32];
    for (int i = 0; i < 32; ++i) bit[i] = code[i] / 2;
    Codes<1>::store(bit, tile, groups, place(groups, group));
  }
  static __device__ __forceinline__ void fetch(uint32_t (&raw)[kWords], const uint8_t* tile, int groups, int group) {
    Codes<1>::fetch(raw, tile, groups, place(groups, group));
  }
  static __device__ __forceinline__ void unpack(uint32_t (&word)[8], const uint32_t (&raw)[kWords], NoLut) {
#pragma unroll
    for (int k = 0; k < 8; ++k) word[k] = shifted(raw[0], 1 - k) & 0x02020202;
  }
};

// Two codes per byte of three words (8k + i low, 8k + 4 + i in bits 3-5); the last eight codes' lower two bits in bits
// 6-7 of the first two words, the third in the last. A third of the operations of separate planes.
template <>
struct Codes<3> {
  static constexpr int kBits = 3, kBytes = 12, kWords = 3;
  static constexpr bool kSigned = false;
  static __device__ void store(const uint8_t (&code)[32], uint8_t* tile, int groups, int group) {
    for (int i = 0; i < 4; ++i) {
      const int six = code[24 + i], seven = code[28 + i];
      const int rest[3] = {six & 3, seven & 3, six >> 2 | (seven >> 2) << 1};
      for (int k = 0; k < 3; ++k)
        tile[(k < 2 ? 8 * group + 4 * k : 8 * groups + 4 * group) + i] =
            static_cast<uint8_t>(code[8 * k + i] | code[8 * k + 4 + i] << 3 | rest[k] << 6);
    }
  }
  static __device__ __forceinline__ void fetch(uint32_t (&raw)[kWords], const uint8_t* tile, int groups, int group) {
    const uint2 pair = *reinterpret_cast<const uint2*>(tile + 8 * group);
    raw[0] = pair.x;
    raw[1] = pair.y;
    raw[2] = word_at(tile + 8 * groups + 4 * group);
  }
  using Lut = NoLut;
  static __device__ __forceinline__ void unpack(uint32_t (&word)[8], const uint32_t (&raw)[kWords], NoLut) {
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      word[2 * k] = raw[k] & 0x07070707;
      word[2 * k + 1] = raw[k] >> 3 & 0x07070707;
    }
    word[6] = (raw[0] >> 6 & 0x03030303) | (raw[2] >> 4 & 0x04040404);
    word[7] = (raw[1] >> 6 & 0x03030303) | (raw[2] >> 5 & 0x04040404);
  }
};

// Nibble i of word k is code 8k + i, so 16 bits are a permute's selector.
struct Nibbles {
  static constexpr int kBytes = 16;

  template <typename Level>
  static __device__ void store(const uint8_t (&code)[32], Level level, uint8_t* tile, int group) {
    for (int i = 0; i < 32; i += 2) {
      int pair = 0;
      for (int n = 0; n < 16; ++n) {
        if (level(n) == static_cast<int8_t>(code[i])) pair = (pair & 0xf0) | n;
        if (level(n) == static_cast<int8_t>(code[i + 1])) pair = (pair & 15) | n << 4;
      }
      tile[16 * group + i / 2] = static_cast<uint8_t>(pair);
    }
  }

  static constexpr int kWords = 4;
  static __device__ __forceinline__ void fetch(uint32_t (&raw)[kWords], const uint8_t* tile, int, int group) {
    put(raw, *reinterpret_cast<const uint4*>(tile + 16 * group));
  }
};

// Three bits look up both halves of the levels; the fourth, as select bit 2 of another permute, chooses. `halves`:
// 0x32103210.
template <int kCount>
__device__ __forceinline__ void look_up(uint32_t (&word)[2 * kCount], const uint32_t (&nibbles)[kCount],
                                        const uint32_t (&levels)[4], uint32_t halves) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const uint32_t index = nibbles[k] & 0x77777777, choice = (nibbles[k] >> 1 & 0x44444444) | halves;
    word[2 * k] = permute(permute(levels[0], levels[1], index), permute(levels[2], levels[3], index), choice);
    word[2 * k + 1] =
        permute_upper(permute_upper(levels[0], levels[1], index), permute_upper(levels[2], levels[3], index), choice);
  }
}

constexpr uint32_t iq4_levels(int k) {
  constexpr int kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word |= static_cast<uint32_t>(kLevels[4 * k + i] & 0xff) << (8 * i);
  return word;
}

struct Iq4Codes : Nibbles {
  struct Lut : NoLut {
    uint32_t first, third, halves;
    __device__ __forceinline__ Lut() {
      constexpr uint32_t t0 = iq4_levels(0), t2 = iq4_levels(2);
      first = t0, third = t2, halves = 0x32103210;
    }
    __device__ __forceinline__ explicit Lut(const uint8_t*) : Lut() {
      first = constant_in_register(first), third = constant_in_register(third), halves = constant_in_register(halves);
    }
  };
  static __device__ void store(const uint8_t (&code)[32], uint8_t* tile, int, int group) {
    Nibbles::store(
        code, [](int n) { return int{quant::kIq4Levels[n]}; }, tile, group);
  }

  static __device__ __forceinline__ void unpack(uint32_t (&word)[8], const uint32_t (&raw)[kWords], const Lut& lut) {
    constexpr uint32_t second = iq4_levels(1), fourth = iq4_levels(3);
    look_up(word, raw, {lut.first, second, lut.third, fourth}, lut.halves);
  }
};

// Codes + 12 are below 128, so a selector with its highest bit set (a sign) gives 0. Levels of both signs are looked up
// and added; logic would use the permutes' pipeline.
struct E2m1Codes : Nibbles { // doubled
  struct Lut : NoLut {
    uint32_t positive, negative; // of magnitudes 0 1 2 3
    __device__ __forceinline__ Lut() : positive(0x0f0e0d0c), negative(0x090a0b0c) {}
    __device__ __forceinline__ explicit Lut(const uint8_t*) : Lut() {
      positive = constant_in_register(positive), negative = constant_in_register(negative);
    }
  };
  static constexpr int kBias = 12;
  static constexpr bool kSigned = false;
  static __device__ void store(const uint8_t (&code)[32], uint8_t* tile, int, int group) {
    Nibbles::store(
        code, [](int n) { return quant::doubled_e2m1(n) + kBias; }, tile, group);
  }
  static __device__ __forceinline__ void unpack(uint32_t (&word)[8], const uint32_t (&raw)[kWords], const Lut& lut) {
    const uint32_t low = lut.positive, low_negative = lut.negative;
    constexpr uint32_t kHigh = 0x18141210, kHighNegative = 0x00040608;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const uint32_t flipped = raw[k] ^ 0x88888888;
      word[2 * k] = permute(low, kHigh, raw[k]) + permute(low_negative, kHighNegative, flipped);
      word[2 * k + 1] = permute_upper(low, kHigh, raw[k]) + permute_upper(low_negative, kHighNegative, flipped);
    }
  }
};

} // namespace ridge::kernels::cuda
