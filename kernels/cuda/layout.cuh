// How the weights of each format lie in device memory, and how a lane takes its share of them.
//
// A row is cut into units. A unit is what one warp works on at a time: 32 items, one per lane; an item is a group of 32
// weights (F16, BF16: 16; F32: 8). Units start at multiples of 16 bytes, so that a warp can fetch them in 16-byte
// pieces whatever the size of a block is. The last unit of a row may hold fewer items.
//
// Inside a unit the pieces of all items lie in planes: first the codes (four-bit part, then two-bit, then one-bit part:
// 16, 8 and 4 bytes per item), then the scales. So the lanes of a warp read neighbouring, aligned words, and codes
// come four to a register, as the integer dot instruction takes them. No bit is added: a unit has as many bytes as the
// file's blocks, rounded up to 16. `store` makes this order at upload from what Format::unpack says; `fetch` reads an
// item's bits and `unpack` makes codes and scales of them, so that a kernel can do the one long before the other. A
// format that no specialisation names keeps its blocks as they are in the file, and `unpack` asks Format::unpack.
#pragma once

#include "quant/formats/bf16.h"
#include "quant/formats/f16.h"
#include "quant/formats/f32.h"
#include "quant/formats/iq4_nl.h"
#include "quant/formats/iq4_xs.h"
#include "quant/formats/mxfp4.h"
#include "quant/formats/nvfp4.h"
#include "quant/formats/q2_0.h"
#include "quant/formats/q2_k.h"
#include "quant/formats/q3_k.h"
#include "quant/formats/q4_0.h"
#include "quant/formats/q4_1.h"
#include "quant/formats/q4_k.h"
#include "quant/formats/q5_0.h"
#include "quant/formats/q5_1.h"
#include "quant/formats/q5_k.h"
#include "quant/formats/q6_k.h"
#include "quant/formats/q8_0.h"
#include "quant/formats/tq2_0.h"
#include "quant/group.h"

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace ridge::kernels::cuda {

inline constexpr int kUnitItems = 32;

// An item of a packed format: weight i is scale[i / 16] * (code i - bias) + offset[i / 16], code i being byte i % 4 of
// word[i / 4], signed.
struct Item {
  uint32_t word[8];
  float scale[2], offset[2];
};

__device__ __forceinline__ uint32_t word_at(const uint8_t* p) { return *reinterpret_cast<const uint32_t*>(p); }
__device__ __forceinline__ uint32_t short_at(const uint8_t* p) { return *reinterpret_cast<const uint16_t*>(p); }
__device__ __forceinline__ float half_of(uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<uint16_t>(bits)));
}
__device__ __forceinline__ float2 halves_of(uint32_t bits) {
  return __half22float2(*reinterpret_cast<const __half2*>(&bits));
}
__device__ __forceinline__ void put(uint32_t* to, const uint4& v) {
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
__device__ __forceinline__ void store_half(uint8_t* p, quant::Half h) { *reinterpret_cast<uint16_t*>(p) = h.bits; }

// ---- Codes
// -----------------------------------------------------------------------------------------------------------

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

// ---- Scales
// ---------------------------------------------------------------------------------------------------------- Each kind:
// kBytes per block of the file; store and load an item's scales behind the codes. `base` is the scale region of a unit
// of `items` items.

template <typename Format>
inline constexpr int kBlockItems = Format::kWeights / 32;

using RawScale = uint32_t[3];

struct ScaleOut {
  float (&scale)[2];
  float (&offset)[2];
  __device__ __forceinline__ void both(float s, float o = 0) const {
    scale[0] = scale[1] = s;
    offset[0] = offset[1] = o;
  }
};

struct HalfScale { // one binary16 per block
  static constexpr int kBytes = 2;
  template <typename Format>
  static __device__ void store(const Format& block, int group, uint8_t* base, int, int item) {
    if (group == 0) store_half(base + 2 * (item / kBlockItems<Format>), block.d);
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int items, int item) {
    raw[0] = short_at(base + 2 * (item / kBlockItems<Format>));
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(ScaleOut out, const RawScale& raw, int item) {
    out.both(half_of(raw[0]));
  }
};

struct HalfScaleOffset { // binary16 scale and offset per 32
  static constexpr int kBytes = 4;
  template <typename Format>
  static __device__ void store(const Format& block, int, uint8_t* base, int, int item) {
    store_half(base + 4 * item, block.d);
    store_half(base + 4 * item + 2, block.m);
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int items, int item) {
    raw[0] = word_at(base + 4 * item);
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(ScaleOut out, const RawScale& raw, int item) {
    const float2 pair = halves_of(raw[0]);
    out.both(pair.x, pair.y);
  }
};

struct PowerScale { // MXFP4: E8M0 per 32
  static constexpr int kBytes = 1;
  template <typename Format>
  static __device__ void store(const Format& block, int, uint8_t* base, int, int item) {
    base[item] = block.e;
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int items, int item) {
    raw[0] = base[item];
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(ScaleOut out, const RawScale& raw, int item) {
    out.both(__uint_as_float(raw[0] < 2 ? 0x00200000u << raw[0] : (raw[0] - 1) << 23));
  }
};

struct E4m3Scales { // NVFP4: UE4M3 per 16
  static constexpr int kBytes = 4;
  template <typename Format>
  static __device__ void store(const Format& block, int group, uint8_t* base, int, int item) {
    base[2 * item] = block.d[2 * group];
    base[2 * item + 1] = block.d[2 * group + 1];
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int items, int item) {
    raw[0] = short_at(base + 2 * item);
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(ScaleOut out, const RawScale& raw, int item) {
    for (int s = 0; s < 2; ++s) {
      out.scale[s] = Format::half_ue4m3(static_cast<uint8_t>(raw[0] >> (8 * s)));
      out.offset[s] = 0;
    }
  }
};

// Two 6-bit numbers per item, in 12 bits: a byte with the low nibbles of both (plane of 1 byte per item), and a nibble
// with their upper two bits (plane of half a byte per item).
struct SixBitPairs {
  static __device__ void store(int first, int second, int next_first, int next_second, uint8_t* base, int items,
                               int item) {
    base[item] = static_cast<uint8_t>((first & 15) | (second & 15) << 4);
    if (item % 2 == 0) // an even item writes the byte that it shares with the next
      base[items + item / 2] =
          static_cast<uint8_t>(first >> 4 | (second >> 4) << 2 | (next_first >> 4) << 4 | (next_second >> 4) << 6);
  }
  static __device__ __forceinline__ void fetch(uint32_t& low, uint32_t& high, const uint8_t* base, int items,
                                               int item) {
    low = base[item];
    high = base[items + item / 2];
  }
  static __device__ __forceinline__ void unpack(int& first, int& second, uint32_t low, uint32_t high, int item) {
    high >>= 4 * (item & 1);
    first = static_cast<int>((low & 15) | (high & 3) << 4);
    second = static_cast<int>(low >> 4 | (high & 12) << 2);
  }
};

struct KScaleMin { // Q4_K, Q5_K: 6-bit scale and min per 32, times two binary16
  static constexpr int kBytes = 16;
  template <typename Format>
  static __device__ void store(const Format& block, int group, uint8_t* base, int items, int item) {
    if (group == 0) {
      store_half(base + 4 * (item / 8), block.d);
      store_half(base + 4 * (item / 8) + 2, block.dmin);
    }
    int scale, min, next_scale, next_min;
    quant::k_scale_min(block.scales, group, scale, min);
    quant::k_scale_min(block.scales, group | 1, next_scale, next_min);
    SixBitPairs::store(scale, min, next_scale, next_min, base + items / 2, items, item);
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int items, int item) {
    raw[0] = word_at(base + 4 * (item / 8));
    SixBitPairs::fetch(raw[1], raw[2], base + items / 2, items, item);
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(ScaleOut out, const RawScale& raw, int item) {
    const float2 d = halves_of(raw[0]);
    int scale, min;
    SixBitPairs::unpack(scale, min, raw[1], raw[2], item);
    out.both(__fmul_rn(d.x, static_cast<float>(scale)), -__fmul_rn(d.y, static_cast<float>(min)));
  }
};

struct Q3Scales { // Q3_K: 6-bit scales per 16, offset by 32
  static constexpr int kBytes = 14;
  template <typename Format>
  static __device__ void store(const Format& block, int group, uint8_t* base, int items, int item) {
    if (group == 0) store_half(base + items + items / 2 + 2 * (item / 8), block.d);
    const int next = 2 * (group | 1);
    SixBitPairs::store(block.scale(2 * group), block.scale(2 * group + 1), block.scale(next), block.scale(next + 1),
                       base, items, item);
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int items, int item) {
    raw[0] = short_at(base + items + items / 2 + 2 * (item / 8));
    SixBitPairs::fetch(raw[1], raw[2], base, items, item);
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(ScaleOut out, const RawScale& raw, int item) {
    const float d = half_of(raw[0]);
    int first, second;
    SixBitPairs::unpack(first, second, raw[1], raw[2], item);
    out.scale[0] = d * static_cast<float>(first - 32);
    out.scale[1] = d * static_cast<float>(second - 32);
    out.offset[0] = out.offset[1] = 0;
  }
};

struct Q6Scales { // Q6_K: 8-bit scales per 16
  static constexpr int kBytes = 18;
  template <typename Format>
  static __device__ void store(const Format& block, int group, uint8_t* base, int items, int item) {
    base[2 * item] = static_cast<uint8_t>(block.scales[2 * group]);
    base[2 * item + 1] = static_cast<uint8_t>(block.scales[2 * group + 1]);
    if (group == 0) store_half(base + 2 * items + 2 * (item / 8), block.d);
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int items, int item) {
    raw[0] = short_at(base + 2 * items + 2 * (item / 8));
    raw[1] = short_at(base + 2 * item);
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(ScaleOut out, const RawScale& raw, int item) {
    const float d = half_of(raw[0]);
    out.scale[0] = d * static_cast<float>(static_cast<int8_t>(raw[1]));
    out.scale[1] = d * static_cast<float>(static_cast<int8_t>(raw[1] >> 8));
    out.offset[0] = out.offset[1] = 0;
  }
};

struct Q2Scales { // Q2_K: 4-bit scale and min per 16
  static constexpr int kBytes = 20;
  template <typename Format>
  static __device__ void store(const Format& block, int group, uint8_t* base, int items, int item) {
    base[2 * item] = block.scales[2 * group];
    base[2 * item + 1] = block.scales[2 * group + 1];
    if (group == 0) {
      store_half(base + 2 * items + 4 * (item / 8), block.d);
      store_half(base + 2 * items + 4 * (item / 8) + 2, block.dmin);
    }
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int items, int item) {
    raw[0] = word_at(base + 2 * items + 4 * (item / 8));
    raw[1] = short_at(base + 2 * item);
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(ScaleOut out, const RawScale& raw, int item) {
    const float2 d = halves_of(raw[0]);
    for (int s = 0; s < 2; ++s) {
      out.scale[s] = d.x * static_cast<float>(raw[1] >> (8 * s) & 15);
      out.offset[s] = -__fmul_rn(d.y, static_cast<float>(raw[1] >> (8 * s + 4) & 15));
    }
  }
};

struct Iq4Scales { // IQ4_XS: 6-bit scales per 32, offset by 32
  static constexpr int kBytes = 8;
  template <typename Format>
  static __device__ void store(const Format& block, int group, uint8_t* base, int items, int item) {
    if (group != 0) return;
    for (int i = 0; i < 4; ++i) base[item / 2 + i] = block.scales_l[i];
    *reinterpret_cast<uint16_t*>(base + items / 2 + item / 4) = block.scales_h;
    store_half(base + items / 2 + items / 4 + item / 4, block.d);
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int items, int item) {
    raw[0] = short_at(base + items / 2 + items / 4 + 2 * (item / 8));
    raw[1] = base[item / 2];
    raw[2] = base[items / 2 + item / 4];
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(ScaleOut out, const RawScale& raw, int item) {
    const auto low = static_cast<int>(raw[1] >> (4 * (item & 1)) & 15),
               high = static_cast<int>(raw[2] >> (2 * (item & 3)) & 3);
    out.both(half_of(raw[0]) * static_cast<float>((low | high << 4) - 32));
  }
};

// ---- Formats
// ---------------------------------------------------------------------------------------------------------

// A packed format kept as it is in the file.
template <typename Format>
struct Layout {
  static_assert(quant::PackedFormat<Format>);
  static constexpr int kItemWeights = 32, kBias = 0;
  static constexpr bool kHalfScales = Format::kScaleWeights == 16, kHasOffset = Format::kHasOffset;
  static constexpr int unit_payload(int items) {
    return items / kBlockItems<Format> * static_cast<int>(sizeof(Format));
  }

  static __device__ void store(const Format& block, int group, uint8_t* unit, int, int item) {
    if (group != 0) return;
    const auto* from = reinterpret_cast<const uint8_t*>(&block);
    uint8_t* to = unit + item / kBlockItems<Format> * sizeof(Format);
    for (unsigned i = 0; i < sizeof(Format); ++i) to[i] = from[i];
  }

  struct Raw {
    const Format* block;
    int group;
  };
  static __device__ __forceinline__ void fetch(Raw& raw, const uint8_t* unit, int, int item) {
    raw = {reinterpret_cast<const Format*>(unit) + item / kBlockItems<Format>, item % kBlockItems<Format>};
  }
  static __device__ __forceinline__ void unpack(Item& out, const Raw& raw, int) {
    quant::Group group;
    raw.block->unpack(raw.group, group);
#pragma unroll
    for (int k = 0; k < 8; ++k)
      out.word[k] = static_cast<uint8_t>(group.code[4 * k]) | static_cast<uint8_t>(group.code[4 * k + 1]) << 8 |
                    static_cast<uint8_t>(group.code[4 * k + 2]) << 16 |
                    static_cast<uint32_t>(static_cast<uint8_t>(group.code[4 * k + 3])) << 24;
    for (int s = 0; s < 2; ++s) out.scale[s] = group.scale[s], out.offset[s] = group.offset[s];
  }
};

// A packed format in planes: `Codes` as above, holding code + kBias_, and `Scales`.
template <typename Format, typename CodePlanes, typename Scales, int kBias_ = 0>
struct PlaneLayout {
  static constexpr int kItemWeights = 32, kBias = kBias_;
  static constexpr bool kHalfScales = Format::kScaleWeights == 16, kHasOffset = Format::kHasOffset;
  static constexpr int unit_payload(int items) {
    return items / kBlockItems<Format> * static_cast<int>(sizeof(Format));
  }
  static_assert(CodePlanes::kBytes * kBlockItems<Format> + Scales::kBytes == sizeof(Format), "planes hold every byte");

  static __device__ void store(const Format& block, int group, uint8_t* unit, int items, int item) {
    quant::Group unpacked;
    block.unpack(group, unpacked);
    uint8_t code[32];
    for (int i = 0; i < 32; ++i) code[i] = static_cast<uint8_t>(unpacked.code[i] + kBias);
    CodePlanes::store(code, unit, items, item);
    Scales::template store<Format>(block, group, unit + CodePlanes::kBytes * items, items, item);
  }

  struct Raw {
    uint32_t code[CodePlanes::kWords];
    RawScale scale;
  };
  static __device__ __forceinline__ void fetch(Raw& raw, const uint8_t* unit, int items, int item) {
    CodePlanes::fetch(raw.code, unit, items, item);
    Scales::template fetch<Format>(raw.scale, unit + CodePlanes::kBytes * items, items, item);
  }
  static __device__ __forceinline__ void unpack(Item& out, const Raw& raw, int item) {
    CodePlanes::unpack(out.word, raw.code);
    Scales::template unpack<Format>({out.scale, out.offset}, raw.scale, item);
  }
};

// clang-format off
template <> struct Layout<quant::Q4_0>   : PlaneLayout<quant::Q4_0, Codes<4>, HalfScale, 8> {};
template <> struct Layout<quant::Q4_1>   : PlaneLayout<quant::Q4_1, Codes<4>, HalfScaleOffset> {};
template <> struct Layout<quant::Q5_0>   : PlaneLayout<quant::Q5_0, Codes<5>, HalfScale, 16> {};
template <> struct Layout<quant::Q5_1>   : PlaneLayout<quant::Q5_1, Codes<5>, HalfScaleOffset> {};
template <> struct Layout<quant::Q8_0>   : PlaneLayout<quant::Q8_0, Codes<8>, HalfScale> {};
template <> struct Layout<quant::Q2_K>   : PlaneLayout<quant::Q2_K, Codes<2>, Q2Scales> {};
template <> struct Layout<quant::Q3_K>   : PlaneLayout<quant::Q3_K, Codes<3>, Q3Scales, 4> {};
template <> struct Layout<quant::Q4_K>   : PlaneLayout<quant::Q4_K, Codes<4>, KScaleMin> {};
template <> struct Layout<quant::Q5_K>   : PlaneLayout<quant::Q5_K, Codes<5>, KScaleMin> {};
template <> struct Layout<quant::Q6_K>   : PlaneLayout<quant::Q6_K, Codes<6>, Q6Scales, 32> {};
template <> struct Layout<quant::IQ4_NL> : PlaneLayout<quant::IQ4_NL, LevelCodes<Iq4Levels>, HalfScale> {};
template <> struct Layout<quant::IQ4_XS> : PlaneLayout<quant::IQ4_XS, LevelCodes<Iq4Levels>, Iq4Scales> {};
template <> struct Layout<quant::MXFP4>  : PlaneLayout<quant::MXFP4, LevelCodes<E2m1Levels>, PowerScale> {};
template <> struct Layout<quant::NVFP4>  : PlaneLayout<quant::NVFP4, LevelCodes<E2m1Levels>, E4m3Scales> {};
template <> struct Layout<quant::TQ2_0>  : PlaneLayout<quant::TQ2_0, Codes<2>, HalfScale, 1> {};
template <> struct Layout<quant::Q2_0>   : PlaneLayout<quant::Q2_0, Codes<2>, HalfScale, 1> {};
// clang-format on

// Float formats: an item is 32 bytes of consecutive weights, in two planes of 16 bytes.
template <quant::FloatFormat Format>
struct Layout<Format> {
  static constexpr int kItemWeights = 32 / static_cast<int>(sizeof(Format));
  static constexpr int unit_payload(int items) { return 32 * items; }

  static __device__ uint8_t* place(uint8_t* unit, int items, int item, int i) {
    const int byte = i * static_cast<int>(sizeof(Format));
    return unit + byte / 16 * 16 * items + 16 * item + byte % 16;
  }

  static __device__ __forceinline__ void unpack(float (&out)[kItemWeights], const uint4& first, const uint4& second) {
    constexpr int kPerWord = 4 / static_cast<int>(sizeof(Format)) > 0 ? 4 / static_cast<int>(sizeof(Format)) : 1;
    uint32_t words[8];
    put(words, first);
    put(words + 4, second);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      if constexpr (sizeof(Format) == 4) {
        out[k] = __uint_as_float(words[k]);
      } else if constexpr (std::is_same_v<Format, quant::F16>) {
        const float2 pair = halves_of(words[k]);
        out[2 * k] = pair.x;
        out[2 * k + 1] = pair.y;
      } else {
        for (int j = 0; j < kPerWord; ++j) {
          const auto bits = static_cast<uint16_t>(words[k] >> (16 * j));
          out[kPerWord * k + j] = reinterpret_cast<const Format*>(&bits)->value();
        }
      }
    }
  }
  static __device__ __forceinline__ void load(float (&out)[kItemWeights], const uint8_t* unit, int items, int item) {
    unpack(out, *reinterpret_cast<const uint4*>(unit + 16 * item),
           *reinterpret_cast<const uint4*>(unit + 16 * items + 16 * item));
  }
};

// Units of a row, in bytes and items.
template <typename Format>
struct Units {
  using L = Layout<Format>;
  static constexpr int kWeights = kUnitItems * L::kItemWeights; // of a full unit
  static constexpr int rounded(int bytes) { return (bytes + 15) / 16 * 16; }
  static constexpr int kBytes = rounded(L::unit_payload(kUnitItems)); // of a full unit
  static constexpr int64_t items_of(int64_t cols) { return (cols + L::kItemWeights - 1) / L::kItemWeights; }
  static constexpr int64_t row_bytes(int64_t cols) {
    const int64_t items = items_of(cols);
    return items / kUnitItems * kBytes + rounded(L::unit_payload(static_cast<int>(items % kUnitItems)));
  }
};

template <typename L>
__device__ __forceinline__ void load_item(Item& out, const uint8_t* unit, int items, int item) {
  typename L::Raw raw;
  L::fetch(raw, unit, items, item);
  L::unpack(out, raw, item);
}

// The weights of an item as f32, as the CPU decodes them.
template <typename Format>
__device__ __forceinline__ void load_weights(float (&out)[Layout<Format>::kItemWeights], const uint8_t* unit, int items,
                                             int item) {
  using L = Layout<Format>;
  if constexpr (quant::FloatFormat<Format>) {
    L::load(out, unit, items, item);
  } else {
    Item packed;
    load_item<L>(packed, unit, items, item);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int code = static_cast<int8_t>(packed.word[i / 4] >> (8 * (i % 4))) - L::kBias;
      const float scaled = __fmul_rn(packed.scale[i / 16], static_cast<float>(code));
      out[i] = L::kHasOffset ? __fadd_rn(scaled, packed.offset[i / 16]) : scaled;
    }
  }
}

} // namespace ridge::kernels::cuda
