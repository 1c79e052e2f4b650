// 32 weights of a row as halves: what every tensor-core kernel makes of packed weights, whichever way it then goes on.
#pragma once

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/layout/layout.cuh"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {

template <typename Format>
inline constexpr int kUnitGroups = Units<Format>::kWeights / 32; // of 32 weights

// An item as pairs of halves. A byte behind 0x64 is the half 1024 + byte, so that two codes become halves in one
// permute; the subtraction is exact, the scale rounds.
template <typename L>
__device__ __forceinline__ void item_halves(uint32_t (&out)[16], const Item& item) {
  constexpr float kFactor = 1 << kWeightExponent;
  __half2 zero[4]; // of eight weights each
#pragma unroll
  for (int e = 0; e < 4; ++e) zero[e] = __float2half2_rn(1024 + 128 + static_cast<float>(bias_of<L>(item, e)));
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const __half2 scale = __float2half2_rn(item.scale[half] * kFactor),
                  offset = __float2half2_rn(item.offset[half] * kFactor);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const uint32_t codes = item.word[4 * half + k / 2] ^ 0x80808080;
      const uint32_t pair = __byte_perm(codes, 0x64646464, k % 2 ? 0x4342 : 0x4140);
      const __half2 centred = __hsub2(*reinterpret_cast<const __half2*>(&pair), zero[2 * half + k / 4]);
      const __half2 weights = L::kHasOffset ? __hfma2(centred, scale, offset) : __hmul2(centred, scale);
      out[8 * half + k] = *reinterpret_cast<const uint32_t*>(&weights);
    }
  }
}

// Group `group` of a unit, which holds `items` items; what lies past them is zero. `fetch` only loads, so that it can
// be long before `halves`.
template <typename Format>
class TileWeights {
 public:
  __device__ __forceinline__ void fetch(const uint8_t* unit, int items, int group) {
    real_ = group < items;
    if (real_) L::fetch(raw_, unit, items, group);
  }
  __device__ __forceinline__ void halves(uint32_t (&out)[16], int group) const {
    Item item{};
    if (real_) L::unpack(item, raw_, group);
    item_halves<L>(out, item);
  }

 private:
  using L = Layout<Format>;
  typename L::Raw raw_;
  bool real_;
};

template <quant::FloatFormat Format>
class TileWeights<Format> {
 public:
  __device__ __forceinline__ void fetch(const uint8_t* unit, int items, int group) {
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      const int item = group * kItems + k;
      real_[k] = item < items;
      if (real_[k]) L::fetch(raw_[k], unit, items, item);
    }
  }
  __device__ __forceinline__ void halves(uint32_t (&out)[16], int) const {
    constexpr float kFactor = 1 << kWeightExponent;
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      uint32_t pair[kPairs];
      if constexpr (quant::ScalarFormat<Format>) {
        Numbers<L::kItemWeights> w;
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
  static constexpr int kItems = 32 / L::kItemWeights, kPairs = L::kItemWeights / 2;
  typename L::Raw raw_[kItems];
  bool real_[kItems];
};

} // namespace ridge::kernels::cuda
