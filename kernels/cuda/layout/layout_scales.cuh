// The scales of an item. Each kind: kBytes per block of the file; `store` and `fetch` find an item's in the scale
// region `base` of a unit of `items` items, which lies behind the codes. Where kHasUnit, scales are multiples of a
// binary16 per block, at unit_at there.
#pragma once

#include "kernels/cuda/layout/layout_base.cuh"
#include "quant/formats/affine4.h"
#include "quant/formats/nvfp4.h"
#include "quant/formats/q4_k.h"

namespace ridge::kernels::cuda {

struct PlainScales { // what they are unless they say otherwise
  static constexpr bool kFactors = false, kHasUnit = false, kRelative = false, kOwnBias = false;
  static constexpr float kUnit = 1;
};

struct HalfScale : PlainScales { // one binary16 per block
  static constexpr int kBytes = 2;
  static constexpr bool kHasUnit = true;
  static constexpr int unit_at(int, int block) { return 2 * block; }
  template <typename Format>
  static __device__ void store(const Format& block, int group, uint8_t* base, int items, int item) {
    if (group == 0) store_half(base + unit_at(items, item / kBlockItems<Format>), block.d);
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int items, int item) {
    raw[0] = short_at(base + unit_at(items, item / kBlockItems<Format>));
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(Item& out, const RawScale& raw, int item) {
    out.scale_by_unit(half_of(raw[0]), 1, 1);
  }
};

struct HalfScaleOffset : PlainScales { // binary16 scale and offset per 32
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
  static __device__ __forceinline__ void unpack(Item& out, const RawScale& raw, int item) {
    const float2 pair = halves_of(raw[0]);
    out.scale_by(pair.x, pair.y);
  }
};

struct HalfScaleZero : PlainScales { // AFFINE4: binary16 scale and an integer zero per 32
  static constexpr int kBytes = 6;
  static constexpr bool kOwnBias = true;
  static __device__ int bias(const quant::AFFINE4& block, int group) { return block.zero(group); }
  template <typename Format>
  static __device__ void store(const Format& block, int group, uint8_t* base, int items, int item) {
    store_half(base + 2 * item, block.d[group]);
    base[2 * items + item] = static_cast<uint8_t>(block.zero(group));
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int items, int item) {
    raw[0] = short_at(base + 2 * item);
    raw[1] = base[2 * items + item];
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(Item& out, const RawScale& raw, int) {
    out.scale_by(half_of(raw[0]));
    out.bias = static_cast<int8_t>(raw[1]);
  }
};

struct WideScaleOffset : PlainScales { // AFFINE8: binary32 scale and offset per 32
  static constexpr int kBytes = 8;
  template <typename Format>
  static __device__ void store(const Format& block, int, uint8_t* base, int, int item) {
    float* to = reinterpret_cast<float*>(base) + 2 * item;
    to[0] = block.d;
    to[1] = block.m;
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int, int item) {
    const uint2 pair = reinterpret_cast<const uint2*>(base)[item];
    raw[0] = pair.x, raw[1] = pair.y;
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(Item& out, const RawScale& raw, int) {
    out.scale_by(__uint_as_float(raw[0]), __uint_as_float(raw[1]));
  }
};

struct PowerScale : PlainScales { // MXFP4: E8M0 per 32
  static constexpr int kBytes = 1;
  static constexpr bool kRelative = true;
  static constexpr float kUnit = 0.5f;
  template <typename Format>
  static __device__ void store(const Format& block, int, uint8_t* base, int, int item) {
    base[item] = block.e;
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int items, int item) {
    raw[0] = base[item];
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(Item& out, const RawScale& raw, int item) {
    // 2^(e - 128), codes being doubled: for e of 0 and 1 it is no normal number, and there the second of these is
    // larger.
    const auto e = static_cast<int>(raw[0]);
    out.scale_by(__int_as_float(max((e - 1) * (1 << 23), (e + 1) * (1 << 21))));
    // Twice that, but 0 for e of 0, which in a sum makes no difference, and infinite for 255, which is no number in the
    // specification: one instruction instead of three.
    out.relative[0] = out.relative[1] = __int_as_float(e * (1 << 23));
  }
};

struct E4m3Scales : PlainScales { // NVFP4: UE4M3 per 16
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
  static __device__ __forceinline__ void unpack(Item& out, const RawScale& raw, int item) {
    for (int s = 0; s < 2; ++s) {
      out.scale[s] = Format::half_ue4m3(static_cast<uint8_t>(raw[0] >> (8 * s)));
      out.offset[s] = 0;
    }
  }
};

struct ScaledE4m3Scales : PlainScales { // NVFP4_SCALED: the same, and the matrix's binary32 per 64
  static constexpr int kBytes = 8;
  template <typename Format>
  static __device__ void store(const Format& block, int group, uint8_t* base, int items, int item) {
    if (group == 0) *reinterpret_cast<uint32_t*>(base + 2 * item) = block.m.bits();
    E4m3Scales::store(block.block, group, base + 2 * items, items, item);
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int items, int item) {
    E4m3Scales::fetch<quant::NVFP4>(raw, base + 2 * items, items, item);
    raw[1] = word_at(base + item / 2 * 4);
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(Item& out, const RawScale& raw, int item) {
    E4m3Scales::unpack<quant::NVFP4>(out, raw, item);
    for (float& scale : out.scale) scale = __fmul_rn(__uint_as_float(raw[1]), scale);
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

struct KScaleMin : PlainScales { // Q4_K, Q5_K: 6-bit scale and min per 32, times two binary16
  static constexpr int kBytes = 16;
  static constexpr bool kFactors = true;
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
  static __device__ __forceinline__ void unpack(Item& out, const RawScale& raw, int item) {
    const float2 d = halves_of(raw[0]);
    int scale, min;
    SixBitPairs::unpack(scale, min, raw[1], raw[2], item);
    out.unit = d.x;
    out.factor[0] = out.factor[1] = scale;
    out.scale_by(__fmul_rn(d.x, static_cast<float>(scale)), -__fmul_rn(d.y, static_cast<float>(min)));
  }
};

struct Q3Scales : PlainScales { // Q3_K: 6-bit scales per 16, offset by 32
  static constexpr int kBytes = 14;
  static constexpr bool kFactors = true, kHasUnit = true;
  static constexpr int unit_at(int items, int block) { return items + items / 2 + 2 * block; }
  template <typename Format>
  static __device__ void store(const Format& block, int group, uint8_t* base, int items, int item) {
    if (group == 0) store_half(base + unit_at(items, item / 8), block.d);
    const int next = 2 * (group | 1);
    SixBitPairs::store(block.scale(2 * group), block.scale(2 * group + 1), block.scale(next), block.scale(next + 1),
                       base, items, item);
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int items, int item) {
    raw[0] = short_at(base + unit_at(items, item / 8));
    SixBitPairs::fetch(raw[1], raw[2], base, items, item);
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(Item& out, const RawScale& raw, int item) {
    const float d = half_of(raw[0]);
    int first, second;
    SixBitPairs::unpack(first, second, raw[1], raw[2], item);
    out.unit = d;
    out.factor[0] = first - 32;
    out.factor[1] = second - 32;
    for (int s = 0; s < 2; ++s) out.scale[s] = d * static_cast<float>(out.factor[s]);
    out.offset[0] = out.offset[1] = 0;
  }
};

struct Q6Scales : PlainScales { // Q6_K: 8-bit scales per 16
  static constexpr int kBytes = 18;
  static constexpr bool kHasUnit = true;
  static constexpr int unit_at(int items, int block) { return 2 * items + 2 * block; }
  template <typename Format>
  static __device__ void store(const Format& block, int group, uint8_t* base, int items, int item) {
    base[2 * item] = static_cast<uint8_t>(block.scales[2 * group]);
    base[2 * item + 1] = static_cast<uint8_t>(block.scales[2 * group + 1]);
    if (group == 0) store_half(base + unit_at(items, item / 8), block.d);
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int items, int item) {
    raw[0] = short_at(base + unit_at(items, item / 8));
    raw[1] = short_at(base + 2 * item);
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(Item& out, const RawScale& raw, int item) {
    out.scale_by_unit(half_of(raw[0]), static_cast<float>(static_cast<int8_t>(raw[1])),
                      static_cast<float>(static_cast<int8_t>(raw[1] >> 8)));
  }
};

struct Q2Scales : PlainScales { // Q2_K: 4-bit scale and min per 16
  static constexpr int kBytes = 20;
  static constexpr bool kFactors = true;
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
  static __device__ __forceinline__ void unpack(Item& out, const RawScale& raw, int item) {
    const float2 d = halves_of(raw[0]);
    out.unit = d.x;
    out.offset_unit = -d.y;
    for (int s = 0; s < 2; ++s) {
      out.factor[s] = static_cast<int>(raw[1] >> (8 * s) & 15);
      out.offset_factor[s] = static_cast<int>(raw[1] >> (8 * s + 4) & 15);
      out.scale[s] = d.x * static_cast<float>(out.factor[s]);
      out.offset[s] = -__fmul_rn(d.y, static_cast<float>(out.offset_factor[s]));
    }
  }
};

struct Iq4Scales : PlainScales { // IQ4_XS: 6-bit scales per 32, offset by 32
  static constexpr int kBytes = 8;
  static constexpr bool kHasUnit = true;
  static constexpr int unit_at(int items, int block) { return items / 2 + items / 4 + 2 * block; }
  template <typename Format>
  static __device__ void store(const Format& block, int group, uint8_t* base, int items, int item) {
    if (group != 0) return;
    for (int i = 0; i < 4; ++i) base[item / 2 + i] = block.scales_l[i];
    *reinterpret_cast<uint16_t*>(base + items / 2 + item / 4) = block.scales_h;
    store_half(base + unit_at(items, item / 8), block.d);
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int items, int item) {
    raw[0] = short_at(base + unit_at(items, item / 8));
    raw[1] = base[item / 2];
    raw[2] = base[items / 2 + item / 4];
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(Item& out, const RawScale& raw, int item) {
    const auto low = static_cast<int>(raw[1] >> (4 * (item & 1)) & 15),
               high = static_cast<int>(raw[2] >> (2 * (item & 3)) & 3);
    const auto scale = static_cast<float>((low | high << 4) - 32);
    out.scale_by_unit(half_of(raw[0]), scale, scale);
  }
};

} // namespace ridge::kernels::cuda
