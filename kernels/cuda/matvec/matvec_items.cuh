// Activations as the kernel of single tokens wants them, and their products with an item of weights.
//
// Activations are integers for this: x ≈ s · (256 · high + low), one scale s per 32, 16 bits, high and low in bytes, so
// that a product of four codes and four activations is one instruction (dp4a) for each half. That is exact to about
// 1e-9 NMSE, the arithmetic being hidden behind the weights' bytes. It is not with formats of less than two bits a
// weight: they get 8 bits, x ≈ s · high, as all do on the CPU; a matrix is then exact to about 5e-5. In exact mode, and
// for float formats, both weights and activations are f32 instead.
#pragma once

#include "kernels/cuda/layout/layout.cuh"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {

template <typename Format, bool kExact>
inline constexpr bool kFloatDots = kExact || quant::FloatFormat<Format>;

// What matvec_bits.cuh multiplies, fast.
template <typename Format>
concept BitFormat = requires {
  requires std::is_same_v<typename Layout<Format>::Codes, SignCodes>;
};

template <typename Format>
inline constexpr bool kLowParts = 8 * sizeof(Format) >= 2 * Format::kWeights;

// Shared memory of the activations of one token.
//   integers: planes of 16 bytes per group of 32 (high 0-15, high 16-31, low 0-15, low 16-31, the latter two only with
//   low parts) and of 4 bytes: its scale s, then, where kItemSums, the sums of its first half, of its second half, of
//   all, s times that;
//   floats: planes of 4 values per item, so that the lanes' 16-byte reads lie side by side.
template <bool kLow>
inline constexpr int kPlaneBytes = kLow ? 64 : 32;
template <typename L>
inline constexpr bool kItemSums = L::kBias != 0 || L::kOwnBias || L::kHasOffset; // else nobody asks for them
template <typename Format, bool kExact>
inline constexpr int kItemBytes = kPlaneBytes<kLowParts<Format>> + (kItemSums<Layout<Format>> ? 20 : 4);
template <typename Format, bool kExact>
requires kFloatDots<Format, kExact>
inline constexpr int kItemBytes<Format, kExact> = Layout<Format>::kItemWeights * 4;
template <typename Format, bool kExact>
constexpr int64_t activation_bytes(int64_t cols) {
  return Units<Format>::items_of(cols) * kItemBytes<Format, kExact>;
}

// What is looked up in shared memory.
template <typename Format, bool kExact>
using LutOf = std::conditional_t<kExact, NoLut, typename Layout<Format>::Lut>;
template <typename Format, bool kExact>
inline constexpr int kLutBytes = LutOf<Format, kExact>::kBytes;

// Whether exact mode has a kernel of its own.
template <typename Format>
inline constexpr bool kHasExactKernel = !quant::FloatFormat<Format> || kLutBytes<Format, false> > 0;

inline constexpr int kHighWorth = 256; // what a high part of an activation counts, in low ones

// The largest magnitude of eight values in each of kLanes neighbouring lanes; not 0, which would have no reciprocal.
template <int kLanes>
__device__ __forceinline__ float largest_of(const float (&v)[8]) {
  float largest = 1e-30f;
#pragma unroll
  for (float value : v) largest = fmaxf(largest, fabsf(value));
#pragma unroll
  for (int lanes = 1; lanes < kLanes; lanes *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
  return largest;
}

// Eight values of a group of 32 that four neighbouring lanes hold -> shared memory, where they are real. By whole
// warps.
template <typename L, bool kLow>
class IntegerStore {
 public:
  // `first`: of the eight values' columns. From `to` on lie the activations of `groups` groups.
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

  __device__ __forceinline__ void operator()(const float (&v)[8], bool real) const {
    constexpr float kMax = kLow ? 127 * kHighWorth + 127 : 127;
    // 1.5 · 2^23 added to a float leaves it rounded in the low bits. With 128 more, byte 1 is the high part, rounded,
    // and byte 0 the low part plus 128, which is its signed byte with the top bit turned.
    constexpr float kMagic = 12582912.0f + (kLow ? 128 : 0);
    const float largest = largest_of<4>(v), inverse = kMax * reciprocal(largest);
    uint32_t high[2], low[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint32_t q[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) q[k] = __float_as_uint(__fmaf_rn(v[4 * i + k], inverse, kMagic));
      const uint32_t first = __byte_perm(q[0], q[1], 0x5410), second = __byte_perm(q[2], q[3], 0x5410);
      high[i] = __byte_perm(first, second, kLow ? 0x7531 : 0x6420);
      if constexpr (kLow) low[i] = __byte_perm(first, second, 0x6420) ^ 0x80808080;
    }
    const float scale = largest * (1 / kMax);
    float mine = scale, scaled_sum = 0;
    if constexpr (kItemSums<L>) {
      constexpr int kOnes = 0x01010101;
      int total = __dp4a(static_cast<int>(high[1]), kOnes, __dp4a(static_cast<int>(high[0]), kOnes, 0));
      if constexpr (kLow) {
        total *= kHighWorth;
        total = __dp4a(static_cast<int>(low[1]), kOnes, __dp4a(static_cast<int>(low[0]), kOnes, total));
      }
      total += __shfl_xor_sync(~0u, total, 1); // of 16
      const int all = total + __shfl_xor_sync(~0u, total, 2);
      if (place_ > 0) mine = __int_as_float(place_ == 3 ? all : total);
      scaled_sum = scale * static_cast<float>(all);
    }
    if (!real) return;
    planes_[0] = {high[0], high[1]};
    if constexpr (kLow) planes_[4 * groups_] = {low[0], low[1]};
    if (kItemSums<L> || place_ == 0) *rest_ = mine;
    if (kItemSums<L> && place_ == 0) rest_[4 * groups_] = scaled_sum;
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

// Group `group` of one token's activations.
template <typename L, bool kLow>
struct IntegerItem {
  uint4 high[2], low[kLow ? 2 : 1];
  float scale, scaled_sum;
  int sum[2], all, eights[2]; // sums; of eight: negative, two to a word

  IntegerItem() = default;
  __device__ __forceinline__ IntegerItem(const uint8_t* activations, int groups, int group) {
    const auto* planes = reinterpret_cast<const uint4*>(activations) + group;
    high[0] = planes[0];
    high[1] = planes[groups];
    if constexpr (kLow) {
      low[0] = planes[2 * groups];
      low[1] = planes[3 * groups];
    }
    const auto* rest = reinterpret_cast<const float*>(activations + kPlaneBytes<kLow> * groups) + group;
    scale = rest[0];
    if constexpr (kItemSums<L>) {
      sum[0] = __float_as_int(rest[groups]);
      sum[1] = __float_as_int(rest[2 * groups]);
      all = __float_as_int(rest[3 * groups]);
      scaled_sum = rest[4 * groups];
    }
    if constexpr (L::kLowers) {
      static_assert(!kLow);
      const auto minus = [](uint32_t first, uint32_t second) {
        constexpr int kEach = -1; // -1, four times
        return __dp4a(static_cast<int>(second), kEach, __dp4a(static_cast<int>(first), kEach, 0));
      };
#pragma unroll
      for (int h = 0; h < 2; ++h)
        eights[h] = (minus(high[h].x, high[h].y) & 0xffff) | minus(high[h].z, high[h].w) << 16;
    }
  }
};

template <typename L>
__device__ __forceinline__ int times_factor(int dot, int factor) {
  return dot * factor + (L::kOddFactors ? dot : 0);
}

// What the codes' bias takes off a dot with activations of that sum.
template <typename L>
__device__ __forceinline__ int bias_times(const Item& w, int sum) {
  if constexpr (L::kOwnBias) return -w.bias * sum;
  return L::kBias ? -L::kBias * sum : 0;
}

// Σ weight · activation over an item, without the unit where L::kRelative. Integers as long as they fit: codes' bias
// goes where the sums begin, scales of 16 that are products of small integers are multiplied before anything becomes a
// float.
template <typename L, bool kLow>
__device__ __forceinline__ float item_dot(const Item& w, const IntegerItem<L, kLow>& x) {
  if constexpr (L::kHalfScales) {
    int dot[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int bias = bias_times<L>(w, x.sum[h]);
      dot[h] = dot16(w.word + 4 * h, x.high[h], kLow ? 0 : bias);
      if constexpr (kLow) dot[h] = dot[h] * kHighWorth + dot16(w.word + 4 * h, x.low[h], bias);
      if constexpr (L::kLowers)
        dot[h] = h == 0 ? __dp2a_lo(x.eights[0], static_cast<int>(w.lowered), dot[0])
                        : __dp2a_hi(x.eights[1], static_cast<int>(w.lowered), dot[1]);
    }
    const float(&scale)[2] = L::kRelative ? w.relative : w.scale;
    float result;
    if constexpr (L::kFactors)
      result = (L::kBlockUnit ? 1 : w.unit) *
               static_cast<float>(times_factor<L>(dot[0], w.factor[0]) + times_factor<L>(dot[1], w.factor[1]));
    else
      result = scale[0] * static_cast<float>(dot[0]) + scale[1] * static_cast<float>(dot[1]);
    if constexpr (L::kHasOffset && L::kFactors)
      result += w.offset_unit * static_cast<float>(w.offset_factor[0] * x.sum[0] + w.offset_factor[1] * x.sum[1]);
    else if constexpr (L::kHasOffset)
      result += w.offset[0] * static_cast<float>(x.sum[0]) + w.offset[1] * static_cast<float>(x.sum[1]);
    return result * x.scale;
  } else {
    static_assert(!L::kLowers);
    const int bias = bias_times<L>(w, x.all);
    int dot = dot16(w.word + 4, x.high[1], dot16(w.word, x.high[0], kLow ? 0 : bias));
    if constexpr (kLow) dot = dot * kHighWorth + dot16(w.word + 4, x.low[1], dot16(w.word, x.low[0], bias));
    float result;
    if constexpr (L::kFactors)
      result = (L::kBlockUnit ? 1 : w.unit) * (static_cast<float>(times_factor<L>(dot, w.factor[0])) * x.scale);
    else
      result = (L::kRelative ? w.relative[0] : w.scale[0]) * (static_cast<float>(dot) * x.scale);
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
