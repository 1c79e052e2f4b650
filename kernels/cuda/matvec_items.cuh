// Activations as the kernel of single tokens wants them, and their products with an item of weights.
//
// Activations are integers for this: x ≈ s · (256 · high + low), one scale s per 32, 16 bits, high and low in bytes, so
// that a product of four codes and four activations is one instruction (dp4a) for each half. That is exact to about
// 1e-9 NMSE, the arithmetic being hidden behind the weights' bytes. In exact mode, and for float formats, both weights
// and activations are f32 instead.
#pragma once

#include "kernels/cuda/layout.cuh"

namespace ridge::kernels::cuda {

template <typename Format, bool kExact>
inline constexpr bool kFloatDots = kExact || quant::FloatFormat<Format>;

// Shared memory of the activations of one token.
//   integers: 84 bytes per group of 32, as four planes of 16 bytes per group (high 0-15, high 16-31, low 0-15, low
//   16-31) and five of 4 bytes (its scale s, the sums of its first half, of its second half, of all, s times that);
//   floats: planes of 4 values per item, so that the lanes' 16-byte reads lie side by side.
template <typename Format, bool kExact>
constexpr int64_t activation_bytes(int64_t cols) {
  const int64_t items = Units<Format>::items_of(cols);
  return kFloatDots<Format, kExact> ? items * Layout<Format>::kItemWeights * 4 : items * 84;
}

// The table of codebook points, which the dots of packed weights look up in shared memory.
template <typename Format, bool kExact>
inline constexpr int kBookBytes = kFloatDots<Format, kExact> ? 0 : Layout<Format>::Book::kBytes;

inline constexpr int kHighWorth = 256; // what a high part of an activation counts, in low ones

// Eight values of a group of 32 that four neighbouring lanes hold -> shared memory, where they are real. By whole
// warps.
__device__ __forceinline__ void store_integers(uint4* to, int groups, int first, const float (&v)[8], bool real) {
  constexpr float kMax = 127 * kHighWorth + 127;
  // 1.5 · 2^23 added to a float leaves it rounded in the low bits. With 128 more, byte 1 is the high part, rounded, and
  // byte 0 the low part plus 128, which is its signed byte with the top bit turned.
  constexpr float kMagic = 12582912.0f + 128;
  float largest = 0;
#pragma unroll
  for (float value : v) largest = fmaxf(largest, fabsf(value));
  largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
  largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
  const float inverse = largest > 1e-30f ? __fdividef(kMax, largest) : 0;
  uint32_t high[2], low[2];
  int total = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    uint32_t q[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) q[k] = __float_as_uint(__fmaf_rn(v[4 * i + k], inverse, kMagic));
    high[i] = __byte_perm(__byte_perm(q[0], q[1], 0x0051), __byte_perm(q[2], q[3], 0x0051), 0x5410);
    low[i] = __byte_perm(__byte_perm(q[0], q[1], 0x0040), __byte_perm(q[2], q[3], 0x0040), 0x5410) ^ 0x80808080;
    total += __dp4a(static_cast<int>(high[i]), 0x01010101, 0) * kHighWorth;
    total = __dp4a(static_cast<int>(low[i]), 0x01010101, total);
  }
  total += __shfl_xor_sync(~0u, total, 1); // of 16
  const int other_half = __shfl_xor_sync(~0u, total, 2);
  if (!real) return;
  const int group = first / 32, half = first / 16 % 2, part = first / 8 % 2;
  auto* planes = reinterpret_cast<uint2*>(to);
  planes[2 * (half * groups + group) + part] = {high[0], high[1]};
  planes[2 * ((2 + half) * groups + group) + part] = {low[0], low[1]};
  const float scale = largest * (1 / kMax);
  auto* rest = reinterpret_cast<float*>(to + 4 * groups) + group;
  const int all = total + other_half;
  rest[(2 * half + part) * groups] = half == part ? half == 0 ? scale : __int_as_float(all) : __int_as_float(total);
  if (half == 0 && part == 0) rest[4 * groups] = scale * static_cast<float>(all);
}

__device__ __forceinline__ int dot16(const uint32_t* codes, const uint4& x, int sum) {
  sum = __dp4a(static_cast<int>(codes[0]), static_cast<int>(x.x), sum);
  sum = __dp4a(static_cast<int>(codes[1]), static_cast<int>(x.y), sum);
  sum = __dp4a(static_cast<int>(codes[2]), static_cast<int>(x.z), sum);
  return __dp4a(static_cast<int>(codes[3]), static_cast<int>(x.w), sum);
}

// Group `group` of one token's activations.
struct IntegerItem {
  uint4 high[2], low[2];
  float scale, scaled_sum;
  int sum[2], all;

  IntegerItem() = default;
  __device__ __forceinline__ IntegerItem(const uint8_t* activations, int groups, int group) {
    const auto* planes = reinterpret_cast<const uint4*>(activations) + group;
    high[0] = planes[0];
    high[1] = planes[groups];
    low[0] = planes[2 * groups];
    low[1] = planes[3 * groups];
    const auto* rest = reinterpret_cast<const float*>(activations + 64 * groups) + group;
    scale = rest[0];
    sum[0] = __float_as_int(rest[groups]);
    sum[1] = __float_as_int(rest[2 * groups]);
    all = __float_as_int(rest[3 * groups]);
    scaled_sum = rest[4 * groups];
  }
};

// Σ weight · activation over an item. Integers as long as they fit: codes' bias goes where the sums begin, scales of
// 16 that are products of small integers are multiplied before anything becomes a float.
template <typename L>
__device__ __forceinline__ float item_dot(const Item& w, const IntegerItem& x) {
  if constexpr (L::kHalfScales) {
    int dot[2];
#pragma unroll
    for (int h = 0; h < 2; ++h)
      dot[h] = dot16(w.word + 4 * h, x.high[h], 0) * kHighWorth + dot16(w.word + 4 * h, x.low[h], -L::kBias * x.sum[h]);
    float result;
    if constexpr (L::kFactors)
      result = w.unit * static_cast<float>(dot[0] * w.factor[0] + dot[1] * w.factor[1]);
    else
      result = w.scale[0] * static_cast<float>(dot[0]) + w.scale[1] * static_cast<float>(dot[1]);
    if constexpr (L::kHasOffset && L::kFactors)
      result += w.offset_unit * static_cast<float>(w.offset_factor[0] * x.sum[0] + w.offset_factor[1] * x.sum[1]);
    else if constexpr (L::kHasOffset)
      result += w.offset[0] * static_cast<float>(x.sum[0]) + w.offset[1] * static_cast<float>(x.sum[1]);
    return result * x.scale;
  } else {
    const int high = dot16(w.word + 4, x.high[1], dot16(w.word, x.high[0], 0)),
              low = dot16(w.word + 4, x.low[1], dot16(w.word, x.low[0], -L::kBias * x.all));
    const int dot = high * kHighWorth + low;
    float result;
    if constexpr (L::kFactors)
      result = w.unit * (static_cast<float>(dot * w.factor[0]) * x.scale);
    else
      result = w.scale[0] * (static_cast<float>(dot) * x.scale);
    if constexpr (L::kHasOffset) result += w.offset[0] * x.scaled_sum;
    return result;
  }
}

// An item of one token's activations as floats.
template <int kWeights>
struct FloatItem {
  float4 quad[kWeights / 4];

  FloatItem() = default;
  __device__ __forceinline__ FloatItem(const uint8_t* activations, int items, int item) {
    const auto* from = reinterpret_cast<const float4*>(activations) + item;
#pragma unroll
    for (int k = 0; k < kWeights / 4; ++k) quad[k] = from[k * items];
  }
  __device__ __forceinline__ float dot(const float (&w)[kWeights]) const {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kWeights / 4; ++k)
      sum += w[4 * k] * quad[k].x + w[4 * k + 1] * quad[k].y + w[4 * k + 2] * quad[k].z + w[4 * k + 3] * quad[k].w;
    return sum;
  }
};

} // namespace ridge::kernels::cuda
