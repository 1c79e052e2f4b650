// Decodes a span, 32 consecutive weights, to f16 for tensor cores.
#pragma once

#include "kernels/cuda/layout/layout.cuh"
#include "kernels/cuda/products/gemm.h"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {

template <typename Format>
inline constexpr int kTileSpans = TileLayout<Format>::kWeights / 32;

template <typename L>
consteval bool has_nibbles() {
  if constexpr (requires { typename L::Codes; })
    return std::is_same_v<typename L::Codes, Codes<4>>;
  else
    return false;
}
template <typename L>
consteval bool signed_codes() {
  if constexpr (requires { L::Codes::kSigned; })
    return L::Codes::kSigned;
  else
    return true;
}

// Each four in order, or as first, third, second, fourth, as nibble pairs come out of a word.
enum class ColumnOrder { natural, interleaved };

template <uint32_t kMask, uint32_t kBits>
__device__ __forceinline__ uint32_t and_or(uint32_t word) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(word), "r"(kMask), "n"(kBits));
  return result;
}

// Half the codes' range, subtracted from codes of formats with offsets and added back by the offset, so that rounding
// errors multiply small numbers.
template <typename L>
consteval int middle_of_codes() {
  if constexpr (requires { L::Codes::kBits; })
    return L::kHasOffset && !L::Codes::kSigned ? 1 << (L::Codes::kBits - 1) : 0;
  else
    return 0;
}

template <typename L>
struct HalfScales {
  __half2 scale, offset;
  __device__ __forceinline__ uint32_t weights(uint32_t pair, __half2 zero) const { // exact subtraction
    const __half2 centred = __hsub2(*reinterpret_cast<const __half2*>(&pair), zero);
    const __half2 weights = L::kHasOffset ? __hfma2(centred, scale, offset) : __hmul2(centred, scale);
    return *reinterpret_cast<const uint32_t*>(&weights);
  }
};
template <typename L>
using GroupScales = HalfScales<L>[2];

template <typename L>
__device__ __forceinline__ HalfScales<L> half_scales(const GroupCodes& group, int half) {
  constexpr float kFactor = 1 << kWeightExponent;
  return {__float2half2_rn(group.scale[half] * kFactor),
          __float2half2_rn((group.offset[half] + middle_of_codes<L>() * group.scale[half]) * kFactor)};
}

// A byte after 0x64 is the f16 1024 + byte, so one permute converts two codes.
template <typename L, ColumnOrder kOrder>
__device__ __forceinline__ void group_halves(uint32_t (&out)[16], const GroupCodes& group,
                                             const GroupScales<L>& scales) {
  constexpr bool kSigned = signed_codes<L>();
  constexpr uint32_t kSelect[2] = {kOrder == ColumnOrder::natural ? 0x4140 : 0x4240,
                                   kOrder == ColumnOrder::natural ? 0x4342 : 0x4341};
  __half2 zero[4];
#pragma unroll
  for (int e = 0; e < 4; ++e)
    zero[e] =
        __float2half2_rn(static_cast<float>(1024 + (kSigned ? 128 : 0) + middle_of_codes<L>() + L::Bias::of(group, e)));
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const uint32_t codes = kSigned ? group.word[4 * half + k / 2] ^ 0x80808080 : group.word[4 * half + k / 2];
      out[8 * half + k] = scales[half].weights(__byte_perm(codes, 0x64646464, kSelect[k % 2]), zero[2 * half + k / 4]);
    }
}

// Interleaved: a nibble in bits 0 to 3 of 0x6400 is the f16 1024 + code, in bits 4 to 7 of 0x5400 it is 64 + code.
// `bias` includes the middle.
template <typename L>
__device__ __forceinline__ void nibble_halves(uint32_t (&out)[16], const uint32_t (&code)[4], int bias,
                                              const GroupScales<L>& scales) {
  const __half2 low = __float2half2_rn(static_cast<float>(1024 + bias)),
                high = __float2half2_rn(static_cast<float>(64 + bias));
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int k = 0; k < 8; k += 4) { // codes 8j, 8j + 2; 8j + 1, 8j + 3; then 4 later
      const uint32_t first = code[2 * half + k / 4], second = first >> 8;
      uint32_t* to = out + 8 * half + k;
      to[0] = scales[half].weights(and_or<0x000f000f, 0x64006400>(first), low);
      to[1] = scales[half].weights(and_or<0x000f000f, 0x64006400>(second), low);
      to[2] = scales[half].weights(and_or<0x00f000f0, 0x54005400>(first), high);
      to[3] = scales[half].weights(and_or<0x00f000f0, 0x54005400>(second), high);
    }
}

template <typename L>
concept UnpacksRows = requires(RowScales (&out)[2], const RawScale& raw) {
  L::Scales::unpack_rows(out, raw, raw, 0, 0.F, 0);
};

// Weights past `groups` are zero; with fetch_nearest they repeat the last group, with fetch_full there are none.
// Fetches only load, so that kernels can issue them early.
template <typename Format>
class SpanWeights {
  using L = Layout<Format>;

 public:
  __device__ __forceinline__ void fetch(const uint8_t* tile, int groups, int span) {
    real_ = span < groups;
    if (real_) L::fetch(raw_, tile, groups, span);
  }
  __device__ __forceinline__ void fetch_nearest(const uint8_t* tile, int groups, int span) {
    fetch_full(tile, groups, min(span, groups - 1));
  }
  __device__ __forceinline__ void fetch_full(const uint8_t* tile, int groups, int span) {
    L::fetch(raw_, tile, groups, span);
    real_ = true;
  }
  __device__ __forceinline__ SpanWeights copy() const {
    SpanWeights other = *this;
    uint32_t words[sizeof(raw_) / 4];
    memcpy(words, &other.raw_, sizeof(raw_));
#pragma unroll
    for (uint32_t& word : words) asm volatile("" : "+r"(word));
    memcpy(&other.raw_, words, sizeof(raw_));
    return other;
  }
  template <ColumnOrder kOrder = ColumnOrder::natural>
  __device__ __forceinline__ void halves(uint32_t (&out)[16], int span) const {
    GroupCodes group{};
    if (real_) L::unpack(group, raw_, span);
    const GroupScales<L> scales = {half_scales<L>(group, 0), half_scales<L>(group, 1)};
    scaled<kOrder>(out, group, scales);
  }
  template <ColumnOrder kOrder>
  static __device__ __forceinline__ void halves_of_rows(uint32_t (&out)[2][16], const SpanWeights (&rows)[2],
                                                        int span) {
    if constexpr (UnpacksRows<L>) {
      RowScales both[2];
      L::Scales::unpack_rows(both, rows[0].raw_.scale, rows[1].raw_.scale, span, 1 << kWeightExponent,
                             middle_of_codes<L>());
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        GroupCodes group{};
        if (rows[row].real_) L::unpack(group, rows[row].raw_, span);
        const auto of_row = [&](__half2 pair) { return row ? __high2half2(pair) : __low2half2(pair); };
        const GroupScales<L> scales = {{of_row(both[0].scale), of_row(both[0].offset)},
                                       {of_row(both[1].scale), of_row(both[1].offset)}};
        rows[row].template scaled<kOrder>(out[row], group, scales);
      }
    } else {
#pragma unroll
      for (int row = 0; row < 2; ++row) rows[row].template halves<kOrder>(out[row], span);
    }
  }

 private:
  template <ColumnOrder kOrder>
  __device__ __forceinline__ void scaled(uint32_t (&out)[16], const GroupCodes& group,
                                         const GroupScales<L>& scales) const {
    if constexpr (kOrder == ColumnOrder::interleaved && has_nibbles<L>())
      nibble_halves<L>(out, raw_.code, middle_of_codes<L>() + L::Bias::of(group, 0), scales);
    else
      group_halves<L, kOrder>(out, group, scales);
    if (real_) return;
#pragma unroll
    for (uint32_t& pair : out) pair = 0;
  }

  typename L::Raw raw_;
  bool real_;
};

template <quant::FloatFormat Format>
class SpanWeights<Format> {
 public:
  __device__ __forceinline__ void fetch(const uint8_t* tile, int groups, int span) {
#pragma unroll
    for (int k = 0; k < kGroups; ++k) {
      const int group = span * kGroups + k;
      real_[k] = group < groups;
      if (real_[k]) L::fetch(raw_[k], tile, groups, group);
    }
  }
  __device__ __forceinline__ void fetch_nearest(const uint8_t* tile, int groups, int span) {
#pragma unroll
    for (int k = 0; k < kGroups; ++k) {
      L::fetch(raw_[k], tile, groups, min(span * kGroups + k, groups - 1));
      real_[k] = true;
    }
  }
  __device__ __forceinline__ void fetch_full(const uint8_t* tile, int groups, int span) {
    fetch_nearest(tile, groups, span);
  }
  template <ColumnOrder kOrder = ColumnOrder::natural>
  __device__ __forceinline__ void halves(uint32_t (&out)[16], int) const {
    constexpr float kFactor = 1 << kWeightExponent;
#pragma unroll
    for (int k = 0; k < kGroups; ++k) {
      uint32_t pair[kPairs];
      if constexpr (quant::ScalarFormat<Format>) {
        Numbers<L::kGroupWeights> w;
        L::unpack(w, raw_[k]);
#pragma unroll
        for (int i = 0; i < kPairs; ++i) pair[i] = pack_half2(w.number[2 * i] * kFactor, w.number[2 * i + 1] * kFactor);
      } else {
        float factor;
        L::unpack_halves(pair, factor, raw_[k]);
        const __half2 scale = __float2half2_rn(factor * kFactor);
#pragma unroll
        for (uint32_t& word : pair) {
          const __half2 weights = __hmul2(*reinterpret_cast<const __half2*>(&word), scale);
          word = *reinterpret_cast<const uint32_t*>(&weights);
        }
      }
#pragma unroll
      for (int i = 0; i < kPairs; ++i) out[k * kPairs + i] = real_[k] ? in_order<kOrder>(pair, i) : 0;
    }
  }
  template <ColumnOrder kOrder>
  static __device__ __forceinline__ void halves_of_rows(uint32_t (&out)[2][16], const SpanWeights (&rows)[2],
                                                        int span) {
#pragma unroll
    for (int h = 0; h < 2; ++h) rows[h].template halves<kOrder>(out[h], span);
  }

 private:
  template <ColumnOrder kOrder, int kCount>
  static __device__ __forceinline__ uint32_t in_order(const uint32_t (&pair)[kCount], int i) {
    if (kOrder == ColumnOrder::natural) return pair[i];
    return __byte_perm(pair[i & ~1], pair[i | 1], i % 2 ? 0x7632 : 0x5410);
  }

  using L = Layout<Format>;
  static constexpr int kGroups = 32 / L::kGroupWeights, kPairs = L::kGroupWeights / 2;
  typename L::Raw raw_[kGroups];
  bool real_[kGroups];
};

} // namespace ridge::kernels::cuda
