// Scale policies (layout_base.cuh). kBytes: per block of the file. `base`: the warp tile's region of scales. If
// kBlockScale, scales are multiples of a binary16 per eight groups, at block_scale_at.
#pragma once

#include "kernels/cuda/layout/layout_base.cuh"
#include "quant/formats/affine4.h"
#include "quant/formats/nvfp4.h"
#include "quant/formats/q4_k.h"

namespace ridge::kernels::cuda {

// Scales of two rows, times `factor`; the offset is for codes less `middle`.
struct RowScales {
  __half2 scale, offset;
};
__device__ __forceinline__ __half2 half2_of(uint32_t bits) { return *reinterpret_cast<const __half2*>(&bits); }
__device__ __forceinline__ uint32_t lower_halves(uint32_t a, uint32_t b) { return permute(a, b, 0x5410); }
__device__ __forceinline__ uint32_t upper_halves(uint32_t a, uint32_t b) { return permute(a, b, 0x7632); }
// Exact: f16 holds all integers to 2048.
template <int kBias>
__device__ __forceinline__ __half2 byte_halves(uint32_t bytes) {
  return __hsub2(half2_of((bytes & 0x00ff00ff) | 0x64006400), __float2half2_rn(1024 + kBias));
}
// Four bits of `low`, two of `high` in place.
__device__ __forceinline__ __half2 small_halves(uint32_t low, uint32_t high) {
  return __hsub2(half2_of((low & 0x000f000f) | 0x64006400 | (high & 0x00300030)), __float2half2_rn(1024));
}

struct HalfScale : ScaleOnly { // one binary16 per block
  static constexpr int kBytes = 2;
  static constexpr int block_scale_at(int, int block) { return 2 * block; }
  template <typename Format>
  static __device__ void store(const Format& block, int in_block, uint8_t* base, int groups, int group) {
    if (in_block == 0) store_half(base + block_scale_at(groups, group / kBlockGroups<Format>), block.d);
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int groups, int group) {
    raw[0] = short_at(base + block_scale_at(groups, group / kBlockGroups<Format>));
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const RawScale& raw, int group) {
    out.scale_by_block(half_of(raw[0]), 1, 1);
  }
  static __device__ __forceinline__ void unpack_rows(RowScales (&out)[2], const RawScale& a, const RawScale& b, int,
                                                     float factor, int) {
    out[0] = out[1] = {__hmul2(half2_of(lower_halves(a[0], b[0])), __float2half2_rn(factor)), {}};
  }
};

struct SharedHalfScale : HalfScale { // per eight groups
  static constexpr bool kBlockScale = true;
  template <typename X>
  static __device__ __forceinline__ float product(const GroupCodes& w, const int (&dot)[1], const X& x) {
    return static_cast<float>(dot[0]) * x.scale;
  }
};

struct HalfScaleOffset : ScaleAndOffset { // per 32
  static constexpr int kBytes = 4;
  template <typename Format>
  static __device__ void store(const Format& block, int, uint8_t* base, int, int group) {
    store_half(base + 4 * group, block.d);
    store_half(base + 4 * group + 2, block.m);
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int groups, int group) {
    raw[0] = word_at(base + 4 * group);
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const RawScale& raw, int group) {
    const float2 pair = halves_of(raw[0]);
    out.scale_by(pair.x, pair.y);
  }
};

struct HalfScaleZero : ScaleOnly { // AFFINE4: binary16 scale and an integer zero per 32
  static constexpr int kBytes = 6;
  template <typename Format>
  static __device__ void store(const Format& block, int in_block, uint8_t* base, int groups, int group) {
    store_half(base + 2 * group, block.d[in_block]);
    base[2 * groups + group] = static_cast<uint8_t>(block.zero(in_block));
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int groups, int group) {
    raw[0] = short_at(base + 2 * group);
    raw[1] = base[2 * groups + group];
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const RawScale& raw, int) {
    out.scale_by(half_of(raw[0]));
    out.bias = static_cast<int8_t>(raw[1]);
  }
};

struct WideScaleOffset : ScaleAndOffset { // AFFINE8: binary32 scale and offset per 32
  static constexpr int kBytes = 8;
  template <typename Format>
  static __device__ void store(const Format& block, int, uint8_t* base, int, int group) {
    float* to = reinterpret_cast<float*>(base) + 2 * group;
    to[0] = block.d;
    to[1] = block.m;
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int, int group) {
    const uint2 pair = reinterpret_cast<const uint2*>(base)[group];
    raw[0] = pair.x, raw[1] = pair.y;
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const RawScale& raw, int) {
    out.scale_by(__uint_as_float(raw[0]), __uint_as_float(raw[1]));
  }
};

struct PowerScale : RelativeScale { // MXFP4: E8M0 per 32
  static constexpr int kBytes = 1;
  static constexpr float kConstantScale = 0.5f;
  template <typename Format>
  static __device__ void store(const Format& block, int, uint8_t* base, int, int group) {
    base[group] = block.e;
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int groups, int group) {
    raw[0] = base[group];
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const RawScale& raw, int group) {
    // 2^(e - 128), since codes are doubled. For e of 0 and 1 it is subnormal, and the second value is larger.
    const auto e = static_cast<int>(raw[0]);
    out.scale_by(__int_as_float(max((e - 1) * (1 << 23), (e + 1) * (1 << 21))));
    // Twice that, but 0 for e = 0 (negligible) and infinite for 255 (NaN in the specification): one instruction instead
    // of three.
    out.relative[0] = out.relative[1] = __int_as_float(e * (1 << 23));
  }
};

struct E4m3Scales : ScaleOnly { // NVFP4: UE4M3 per 16
  static constexpr int kBytes = 4;
  template <typename Format>
  static __device__ void store(const Format& block, int in_block, uint8_t* base, int, int group) {
    base[2 * group] = block.d[2 * in_block];
    base[2 * group + 1] = block.d[2 * in_block + 1];
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int groups, int group) {
    raw[0] = short_at(base + 2 * group);
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const RawScale& raw, int group) {
    for (int s = 0; s < 2; ++s) {
      out.scale[s] = Format::half_ue4m3(static_cast<uint8_t>(raw[0] >> (8 * s)));
      out.offset[s] = 0;
    }
  }
};

struct ScaledE4m3Scales : ScaleOnly { // NVFP4_SCALED: and the matrix's binary32 per 64
  static constexpr int kBytes = 8;
  template <typename Format>
  static __device__ void store(const Format& block, int in_block, uint8_t* base, int groups, int group) {
    if (in_block == 0) *reinterpret_cast<uint32_t*>(base + 2 * group) = block.m.bits();
    E4m3Scales::store(block.block, in_block, base + 2 * groups, groups, group);
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int groups, int group) {
    E4m3Scales::fetch<quant::NVFP4>(raw, base + 2 * groups, groups, group);
    raw[1] = word_at(base + group / 2 * 4);
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const RawScale& raw, int group) {
    E4m3Scales::unpack<quant::NVFP4>(out, raw, group);
    for (float& scale : out.scale) scale = __fmul_rn(__uint_as_float(raw[1]), scale);
  }
};

// Both low nibbles in a byte, both upper bits in a nibble of another plane.
struct SixBitPairs {
  static __device__ void store(int first, int second, int next_first, int next_second, uint8_t* base, int groups,
                               int group) {
    base[group] = static_cast<uint8_t>((first & 15) | (second & 15) << 4);
    if (group % 2 == 0) // shared with the next group
      base[groups + group / 2] =
          static_cast<uint8_t>(first >> 4 | (second >> 4) << 2 | (next_first >> 4) << 4 | (next_second >> 4) << 6);
  }
  static __device__ __forceinline__ void fetch(uint32_t& low, uint32_t& high, const uint8_t* base, int groups,
                                               int group) {
    low = base[group];
    high = base[groups + group / 2];
  }
  static __device__ __forceinline__ void unpack(int& first, int& second, uint32_t low, uint32_t high, int group) {
    high >>= 4 * (group & 1);
    first = static_cast<int>((low & 15) | (high & 3) << 4);
    second = static_cast<int>(low >> 4 | (high & 12) << 2);
  }
};

struct KScaleMin : ScaleAndOffset { // Q4_K, Q5_K: 6-bit scale and min per 32, times two binary16
  static constexpr int kBytes = 16;
  template <typename Format>
  static __device__ void store(const Format& block, int in_block, uint8_t* base, int groups, int group) {
    if (in_block == 0) {
      store_half(base + 4 * (group / 8), block.d);
      store_half(base + 4 * (group / 8) + 2, block.dmin);
    }
    int scale, min, next_scale, next_min;
    quant::k_scale_min(block.scales, in_block, scale, min);
    quant::k_scale_min(block.scales, in_block | 1, next_scale, next_min);
    SixBitPairs::store(scale, min, next_scale, next_min, base + groups / 2, groups, group);
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int groups, int group) {
    raw[0] = word_at(base + 4 * (group / 8));
    SixBitPairs::fetch(raw[1], raw[2], base + groups / 2, groups, group);
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const RawScale& raw, int group) {
    const float2 d = halves_of(raw[0]);
    int scale, min;
    SixBitPairs::unpack(scale, min, raw[1], raw[2], group);
    out.block_scale = d.x;
    out.factor[0] = out.factor[1] = scale;
    out.scale_by(__fmul_rn(d.x, static_cast<float>(scale)), -__fmul_rn(d.y, static_cast<float>(min)));
  }
  static __device__ __forceinline__ void unpack_rows(RowScales (&out)[2], const RawScale& a, const RawScale& b,
                                                     int group, float factor, int middle) {
    const uint32_t low = lower_halves(a[1], b[1]), high = lower_halves(a[2], b[2]) >> 4 * (group & 1);
    const __half2 scale = small_halves(low, high << 4), min = small_halves(low >> 4, high << 2);
    const __half2 d = __hmul2(half2_of(lower_halves(a[0], b[0])), __float2half2_rn(factor)),
                  d_min = __hmul2(half2_of(upper_halves(a[0], b[0])), __float2half2_rn(-factor)),
                  middles = __hmul2(d, __float2half2_rn(static_cast<float>(middle)));
    out[0] = out[1] = {__hmul2(scale, d), __hfma2(scale, middles, __hmul2(min, d_min))};
  }
  // The product stays below 2^31.
  template <typename X>
  static __device__ __forceinline__ float product(const GroupCodes& w, const int (&dot)[1], const X& x) {
    return w.block_scale * (static_cast<float>(dot[0] * w.factor[0]) * x.scale) + w.offset[0] * x.scaled_sum;
  }
};

struct Q3Scales : ScaleOnly { // Q3_K: 6-bit scales per 16, offset by 32
  static constexpr int kBytes = 14;
  static constexpr bool kBlockScale = true;
  static constexpr int block_scale_at(int groups, int block) { return groups + groups / 2 + 2 * block; }
  template <typename Format>
  static __device__ void store(const Format& block, int in_block, uint8_t* base, int groups, int group) {
    if (in_block == 0) store_half(base + block_scale_at(groups, group / 8), block.d);
    const int next = 2 * (in_block | 1);
    SixBitPairs::store(block.scale(2 * in_block), block.scale(2 * in_block + 1), block.scale(next),
                       block.scale(next + 1), base, groups, group);
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int groups, int group) {
    raw[0] = short_at(base + block_scale_at(groups, group / 8));
    SixBitPairs::fetch(raw[1], raw[2], base, groups, group);
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const RawScale& raw, int group) {
    const float d = half_of(raw[0]);
    int first, second;
    SixBitPairs::unpack(first, second, raw[1], raw[2], group);
    out.factor[0] = first - 32;
    out.factor[1] = second - 32;
    for (int s = 0; s < 2; ++s) out.scale[s] = d * static_cast<float>(out.factor[s]);
    out.offset[0] = out.offset[1] = 0;
  }
  template <typename X>
  static __device__ __forceinline__ float product(const GroupCodes& w, const int (&dot)[2], const X& x) {
    return static_cast<float>(dot[0] * w.factor[0] + dot[1] * w.factor[1]) * x.scale;
  }
};

struct Q6Scales : RelativeScale { // Q6_K: 8-bit scales per 16
  static constexpr int kBytes = 18;
  static constexpr bool kBlockScale = true;
  static constexpr int block_scale_at(int groups, int block) { return 2 * groups + 2 * block; }
  template <typename Format>
  static __device__ void store(const Format& block, int in_block, uint8_t* base, int groups, int group) {
    base[2 * group] = static_cast<uint8_t>(block.scales[2 * in_block]);
    base[2 * group + 1] = static_cast<uint8_t>(block.scales[2 * in_block + 1]);
    if (in_block == 0) store_half(base + block_scale_at(groups, group / 8), block.d);
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int groups, int group) {
    raw[0] = short_at(base + block_scale_at(groups, group / 8));
    raw[1] = short_at(base + 2 * group);
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const RawScale& raw, int group) {
    out.scale_by_block(half_of(raw[0]), static_cast<float>(static_cast<int8_t>(raw[1])),
                       static_cast<float>(static_cast<int8_t>(raw[1] >> 8)));
  }
  static __device__ __forceinline__ void unpack_rows(RowScales (&out)[2], const RawScale& a, const RawScale& b, int,
                                                     float factor, int) {
    const __half2 d = __hmul2(half2_of(lower_halves(a[0], b[0])), __float2half2_rn(factor));
    const uint32_t scales = lower_halves(a[1], b[1]) ^ 0x80808080;
    out[0] = {__hmul2(byte_halves<128>(scales), d), {}};
    out[1] = {__hmul2(byte_halves<128>(scales >> 8), d), {}};
  }
};

struct Q2Scales : ScaleOnly { // Q2_K: 4-bit scale and min per 16
  static constexpr int kBytes = 20;
  static constexpr bool kHasOffset = true;
  template <typename Format>
  static __device__ void store(const Format& block, int in_block, uint8_t* base, int groups, int group) {
    base[2 * group] = block.scales[2 * in_block];
    base[2 * group + 1] = block.scales[2 * in_block + 1];
    if (in_block == 0) {
      store_half(base + 2 * groups + 4 * (group / 8), block.d);
      store_half(base + 2 * groups + 4 * (group / 8) + 2, block.dmin);
    }
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int groups, int group) {
    raw[0] = word_at(base + 2 * groups + 4 * (group / 8));
    raw[1] = short_at(base + 2 * group);
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const RawScale& raw, int group) {
    const float2 d = halves_of(raw[0]);
    out.block_scale = d.x;
    out.block_offset = -d.y;
    for (int s = 0; s < 2; ++s) {
      out.factor[s] = static_cast<int>(raw[1] >> (8 * s) & 15);
      out.offset_factor[s] = static_cast<int>(raw[1] >> (8 * s + 4) & 15);
      out.scale[s] = d.x * static_cast<float>(out.factor[s]);
      out.offset[s] = -__fmul_rn(d.y, static_cast<float>(out.offset_factor[s]));
    }
  }
  template <typename X>
  static __device__ __forceinline__ float product(const GroupCodes& w, const int (&dot)[2], const X& x) {
    return (w.block_scale * static_cast<float>(dot[0] * w.factor[0] + dot[1] * w.factor[1]) +
            w.block_offset * static_cast<float>(w.offset_factor[0] * x.sum[0] + w.offset_factor[1] * x.sum[1])) *
           x.scale;
  }
};

struct Iq4Scales : RelativeScale { // IQ4_XS: 6-bit scales per 32, offset by 32
  static constexpr int kBytes = 8;
  static constexpr bool kBlockScale = true;
  static constexpr int block_scale_at(int groups, int block) { return groups / 2 + groups / 4 + 2 * block; }
  template <typename Format>
  static __device__ void store(const Format& block, int in_block, uint8_t* base, int groups, int group) {
    if (in_block != 0) return;
    for (int i = 0; i < 4; ++i) base[group / 2 + i] = block.scales_l[i];
    *reinterpret_cast<uint16_t*>(base + groups / 2 + group / 4) = block.scales_h;
    store_half(base + block_scale_at(groups, group / 8), block.d);
  }
  template <typename Format>
  static __device__ __forceinline__ void fetch(RawScale& raw, const uint8_t* base, int groups, int group) {
    raw[0] = short_at(base + block_scale_at(groups, group / 8));
    raw[1] = base[group / 2];
    raw[2] = base[groups / 2 + group / 4];
  }
  template <typename Format>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const RawScale& raw, int group) {
    const auto low = static_cast<int>(raw[1] >> (4 * (group & 1)) & 15),
               high = static_cast<int>(raw[2] >> (2 * (group & 3)) & 3);
    const auto scale = static_cast<float>((low | high << 4) - 32);
    out.scale_by_block(half_of(raw[0]), scale, scale);
  }
};

} // namespace ridge::kernels::cuda
