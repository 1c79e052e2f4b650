// Decodes a span, 32 consecutive weights of a row, to f16: the left side of every tensor-core product.
#pragma once

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/layout/layout.cuh"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {

template <typename Format>
inline constexpr int kTileSpans = TileLayout<Format>::kWeights / 32; // of a full warp tile

// A packed group as pairs of halves. A byte behind 0x64 is the half 1024 + byte, so that two codes become halves in one
// permute; the subtraction is exact, the scale rounds.
template <typename L>
__device__ __forceinline__ void group_halves(uint32_t (&out)[16], const GroupCodes& group) {
  constexpr float kFactor = 1 << kWeightExponent;
  __half2 zero[4]; // of eight weights each
#pragma unroll
  for (int e = 0; e < 4; ++e) zero[e] = __float2half2_rn(1024 + 128 + static_cast<float>(L::Bias::of(group, e)));
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const __half2 scale = __float2half2_rn(group.scale[half] * kFactor),
                  offset = __float2half2_rn(group.offset[half] * kFactor);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const uint32_t codes = group.word[4 * half + k / 2] ^ 0x80808080;
      const uint32_t pair = __byte_perm(codes, 0x64646464, k % 2 ? 0x4342 : 0x4140);
      const __half2 centred = __hsub2(*reinterpret_cast<const __half2*>(&pair), zero[2 * half + k / 4]);
      const __half2 weights = L::kHasOffset ? __hfma2(centred, scale, offset) : __hmul2(centred, scale);
      out[8 * half + k] = *reinterpret_cast<const uint32_t*>(&weights);
    }
  }
}

// Span `span` of a warp tile of `groups` groups; weights past these are zero. `fetch` only loads, so that a kernel can
// call it long before `halves`.
template <typename Format>
class SpanWeights {
 public:
  __device__ __forceinline__ void fetch(const uint8_t* tile, int groups, int span) {
    real_ = span < groups;
    if (real_) L::fetch(raw_, tile, groups, span);
  }
  __device__ __forceinline__ void halves(uint32_t (&out)[16], int span) const {
    GroupCodes group{};
    if (real_) L::unpack(group, raw_, span);
    group_halves<L>(out, group);
  }

 private:
  using L = Layout<Format>;
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
      for (int i = 0; i < kPairs; ++i) out[k * kPairs + i] = real_[k] ? pair[i] : 0;
    }
  }

 private:
  using L = Layout<Format>;
  static constexpr int kGroups = 32 / L::kGroupWeights, kPairs = L::kGroupWeights / 2;
  typename L::Raw raw_[kGroups];
  bool real_[kGroups];
};

} // namespace ridge::kernels::cuda
