// Activations of the matvec kernel, and their dot products with weights.
//
// Activations are 16-bit integers x ≈ s · (256 · high + low), one scale s per 32: one dp4a per half for four codes;
// NMSE about 1e-9, hidden behind the weights' bytes. Formats under two bits per weight cannot hide it and get 8 bits, x
// ≈ s · high, as on the CPU (NMSE about 5e-5). Exact mode and float formats use f32.
#pragma once

#include "kernels/cuda/layout/layout.cuh"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {

template <typename Format, bool kExact>
inline constexpr bool kFloatDots = kExact || quant::FloatFormat<Format>;

template <typename Format>
concept BitFormat = requires {
  requires std::is_same_v<typename Layout<Format>::Codes, SignCodes>;
};

template <typename Format>
inline constexpr bool kLowParts = 8 * sizeof(Format) >= 2 * Format::kWeights;

// One token's activations. Integers: planes of 16 bytes per group of 32 (high 0-15, high 16-31, and with low parts low
// 0-15, low 16-31), then of 4 bytes: scale s; if kGroupSums, sums of both halves and of all, and s times that. Floats:
// planes of 4 values, so that the lanes' 16-byte reads are contiguous.
template <bool kLow>
inline constexpr int kPlaneBytes = kLow ? 64 : 32;
template <typename L>
inline constexpr bool kGroupSums = L::Bias::kNeedsSums || L::kHasOffset;
template <typename Format, bool kExact>
inline constexpr int kGroupBytes = kPlaneBytes<kLowParts<Format>> + (kGroupSums<Layout<Format>> ? 20 : 4);
template <typename Format, bool kExact>
requires kFloatDots<Format, kExact>
inline constexpr int kGroupBytes<Format, kExact> = Layout<Format>::kGroupWeights * 4;
template <typename Format, bool kExact>
constexpr int64_t activation_bytes(int64_t cols) {
  return TileLayout<Format>::groups_of(cols) * kGroupBytes<Format, kExact>;
}

template <typename Format, bool kExact>
using LutOf = std::conditional_t<kExact, NoLut, typename Layout<Format>::Lut>;
template <typename Format, bool kExact>
inline constexpr int kLutBytes = LutOf<Format, kExact>::kBytes;

template <typename Format>
inline constexpr bool kHasExactKernel = !quant::FloatFormat<Format> || kLutBytes<Format, false> > 0;

inline constexpr int kHighPartFactor = 256;

// Over kLanes neighbouring lanes; not 0, for the reciprocal.
template <int kLanes>
__device__ __forceinline__ float largest_of(const float (&v)[8], uint32_t present = ~0u) {
  float largest = 1e-30f;
#pragma unroll
  for (float value : v) largest = fmaxf(largest, fabsf(value));
#pragma unroll
  for (int lanes = 1; lanes < kLanes; lanes *= 2) largest = fmaxf(largest, __shfl_xor_sync(present, largest, lanes));
  return largest;
}

// Eight values per lane, a group per four lanes. All `present` lanes call it.
template <bool kLow, bool kSums>
struct EightIntegers {
  uint32_t high[2], low[kLow ? 2 : 1];
  float scale, scaled_sum = 0;
  int half_sum = 0, all = 0;

  __device__ __forceinline__ explicit EightIntegers(const float (&v)[8], uint32_t present = ~0u) {
    constexpr float kMax = kLow ? 127 * kHighPartFactor + 127 : 127;
    // Adding 1.5 · 2^23 leaves a float rounded in its low bits. With 128 more, byte 1 is the rounded high part, byte 0
    // the low part plus 128: flip its top bit.
    constexpr float kMagic = 12582912.0f + (kLow ? 128 : 0);
    const float largest = largest_of<4>(v, present), inverse = kMax * reciprocal(largest);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint32_t q[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) q[k] = __float_as_uint(__fmaf_rn(v[4 * i + k], inverse, kMagic));
      const uint32_t first = __byte_perm(q[0], q[1], 0x5410), second = __byte_perm(q[2], q[3], 0x5410);
      high[i] = __byte_perm(first, second, kLow ? 0x7531 : 0x6420);
      if constexpr (kLow) low[i] = __byte_perm(first, second, 0x6420) ^ 0x80808080;
    }
    scale = largest * (1 / kMax);
    if constexpr (kSums) {
      constexpr int kOnes = 0x01010101;
      half_sum = __dp4a(static_cast<int>(high[1]), kOnes, __dp4a(static_cast<int>(high[0]), kOnes, 0));
      if constexpr (kLow) {
        half_sum *= kHighPartFactor;
        half_sum = __dp4a(static_cast<int>(low[1]), kOnes, __dp4a(static_cast<int>(low[0]), kOnes, half_sum));
      }
      half_sum += __shfl_xor_sync(present, half_sum, 1);
      all = half_sum + __shfl_xor_sync(present, half_sum, 2);
      scaled_sum = scale * static_cast<float>(all);
    }
  }
};

// Called by whole warps; lanes that are not `is_valid` store nothing.
template <typename L, bool kLow>
class IntegerStore {
 public:
  __device__ __forceinline__ IntegerStore(uint8_t* to, int groups, int first) : groups_(groups) {
    const int group = first / 32, half = first / 16 % 2, part = first / 8 % 2;
    planes_ = reinterpret_cast<uint2*>(to) + 2 * (half * groups + group) + part;
    place_ = 2 * half + part;
    rest_ = reinterpret_cast<float*>(to + kPlaneBytes<kLow> * groups) + place_ * groups + group;
  }
  __device__ __forceinline__ void advance(int groups) {
    planes_ += 2 * groups;
    rest_ += groups;
  }

  __device__ __forceinline__ void operator()(const float (&v)[8], bool is_valid) const {
    const EightIntegers<kLow, kGroupSums<L>> q(v);
    float mine = q.scale;
    if (kGroupSums<L> && place_ > 0) mine = __int_as_float(place_ == 3 ? q.all : q.half_sum);
    if (!is_valid) return;
    planes_[0] = {q.high[0], q.high[1]};
    if constexpr (kLow) planes_[4 * groups_] = {q.low[0], q.low[1]};
    if (kGroupSums<L> || place_ == 0) *rest_ = mine;
    if (kGroupSums<L> && place_ == 0) rest_[4 * groups_] = q.scaled_sum;
  }

 private:
  uint2* planes_;
  float* rest_;
  int groups_, place_;
};

__device__ __forceinline__ int dot16(const uint32_t* codes, const uint4& x, int sum) {
  sum = __dp4a(static_cast<int>(codes[0]), static_cast<int>(x.x), sum);
  sum = __dp4a(static_cast<int>(codes[1]), static_cast<int>(x.y), sum);
  sum = __dp4a(static_cast<int>(codes[2]), static_cast<int>(x.z), sum);
  return __dp4a(static_cast<int>(codes[3]), static_cast<int>(x.w), sum);
}

template <typename L, bool kLow>
struct IntegerGroup {
  uint4 high[2], low[kLow ? 2 : 1];
  float scale, scaled_sum;
  int sum[2], all, eights[2]; // eights: negative sums of eight, two per word

  IntegerGroup() = default;
  __device__ __forceinline__ IntegerGroup(const uint8_t* activations, int groups, int group) {
    const auto* planes = reinterpret_cast<const uint4*>(activations) + group;
    high[0] = planes[0];
    high[1] = planes[groups];
    if constexpr (kLow) {
      low[0] = planes[2 * groups];
      low[1] = planes[3 * groups];
    }
    const auto* rest = reinterpret_cast<const float*>(activations + kPlaneBytes<kLow> * groups) + group;
    scale = rest[0];
    if constexpr (kGroupSums<L>) {
      sum[0] = __float_as_int(rest[groups]);
      sum[1] = __float_as_int(rest[2 * groups]);
      all = __float_as_int(rest[3 * groups]);
      scaled_sum = rest[4 * groups];
    }
    if constexpr (L::Bias::kLowers) {
      static_assert(!kLow);
      const auto minus = [](uint32_t first, uint32_t second) {
        constexpr int kEach = -1; // -1 in each byte
        return __dp4a(static_cast<int>(second), kEach, __dp4a(static_cast<int>(first), kEach, 0));
      };
#pragma unroll
      for (int h = 0; h < 2; ++h)
        eights[h] = (minus(high[h].x, high[h].y) & 0xffff) | minus(high[h].z, high[h].w) << 16;
    }
  }
};

// Without the scales that L's policy omits. Integer as long as it fits; sums start with the bias.
template <typename L, bool kLow>
__device__ __forceinline__ float group_dot(const GroupCodes& w, const IntegerGroup<L, kLow>& x) {
  using Bias = typename L::Bias;
  if constexpr (L::kHalfScales) {
    int dot[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int bias = Bias::times(w, x.sum[h]);
      dot[h] = dot16(w.word + 4 * h, x.high[h], kLow ? 0 : bias);
      if constexpr (kLow) dot[h] = dot[h] * kHighPartFactor + dot16(w.word + 4 * h, x.low[h], bias);
      if constexpr (Bias::kLowers)
        dot[h] = h == 0 ? __dp2a_lo(x.eights[0], static_cast<int>(w.lowered), dot[0])
                        : __dp2a_hi(x.eights[1], static_cast<int>(w.lowered), dot[1]);
    }
    return L::Scales::product(w, dot, x);
  } else {
    static_assert(!Bias::kLowers);
    const int bias = Bias::times(w, x.all);
    int dot[1] = {dot16(w.word + 4, x.high[1], dot16(w.word, x.high[0], kLow ? 0 : bias))};
    if constexpr (kLow) dot[0] = dot[0] * kHighPartFactor + dot16(w.word + 4, x.low[1], dot16(w.word, x.low[0], bias));
    return L::Scales::product(w, dot, x);
  }
}

template <int kWeights>
struct FloatGroup {
  float4 quad[kWeights / 4];

  FloatGroup() = default;
  __device__ __forceinline__ FloatGroup(const uint8_t* activations, int groups, int group) {
    const auto* from = reinterpret_cast<const float4*>(activations) + group;
#pragma unroll
    for (int k = 0; k < kWeights / 4; ++k) quad[k] = from[k * groups];
  }
  __device__ __forceinline__ float dot(const Numbers<kWeights>& w) const {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kWeights / 4; ++k) {
      sum = __fmaf_rn(w.number[4 * k], quad[k].x, sum);
      sum = __fmaf_rn(w.number[4 * k + 1], quad[k].y, sum);
      sum = __fmaf_rn(w.number[4 * k + 2], quad[k].z, sum);
      sum = __fmaf_rn(w.number[4 * k + 3], quad[k].w, sum);
    }
    return w.factor * sum;
  }
};

} // namespace ridge::kernels::cuda
