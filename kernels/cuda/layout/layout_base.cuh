// A lane's group, policies of scales and biases, and the general layout.
#pragma once

#include "kernels/cuda/products/desc.h"
#include "quant/formats/group.h"

#include <cuda_fp16.h>

#include <cstdint>

namespace ridge::kernels::cuda {

// Code i is signed byte i % 4 of word[i / 4]; with half h = i / 16,
//   weight i = scale[h] * (code i - bias) + offset[h].
// Policies set the members that their products read, so that dot products stay integer longer.
struct GroupCodes {
  uint32_t word[8];
  float scale[2], offset[2], relative[2];
  float block_scale, block_offset;
  int factor[2], offset_factor[2], bias;
  uint32_t lowered;

  __device__ __forceinline__ void scale_by(float s, float o = 0) {
    scale[0] = scale[1] = s;
    offset[0] = offset[1] = o;
  }
  __device__ __forceinline__ void scale_by_block(float block_scale, float first, float second) {
    relative[0] = first, relative[1] = second;
    scale[0] = block_scale * first, scale[1] = block_scale * second;
    offset[0] = offset[1] = 0;
  }
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
__device__ __forceinline__ void put2(float* to, float2 v) { to[0] = v.x, to[1] = v.y; }
__device__ __forceinline__ void store_half(uint8_t* p, quant::Half h) { *reinterpret_cast<uint16_t*>(p) = h.bits; }

// prmt: byte i is the byte of {high, low} named by bits 0-2 of selector nibble i; with bit 3, its sign in all bits
// (__byte_perm masks bit 3).
__device__ __forceinline__ uint32_t permute(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selector));
  return result;
}
// By a dot product, because shifts share the pipeline that bounds unpacking; in assembly, because the compiler would
// recompute the shifted word.
__device__ __forceinline__ uint32_t upper_half(uint32_t word) {
  uint32_t upper;
  asm("dp2a.lo.u32.u32 %0, %1, %2, %3;" : "=r"(upper) : "r"(word), "r"(0x100), "r"(0));
  return upper;
}
__device__ __forceinline__ uint32_t permute_upper(uint32_t low, uint32_t high, uint32_t selector) {
  return permute(low, high, upper_half(selector));
}

// In a register: the assembler cannot see through a shuffle and would otherwise reload the constant. Called by whole
// warps.
__device__ __forceinline__ uint32_t constant_in_register(uint32_t constant) {
  const uint32_t lane = threadIdx.x % 32;
  return __shfl_sync(~0u, constant + lane, static_cast<int>(lane)) - lane;
}

template <typename Format>
inline constexpr int kBlockGroups = Format::kWeights / 32;

using RawScale = uint32_t[3];

// A Lut is `unpack`'s table: kBytes of 16-byte aligned shared memory, filled by all threads (`Lut::template
// Filler<kThreads>(thread).store(words)`, then __syncthreads()), and constants in registers. Whole warps construct it
// once.
struct NoLut {
  static constexpr int kBytes = 0;
  NoLut() = default;
  __device__ explicit NoLut(const uint8_t*) {}
  template <int kThreads>
  struct Filler {
    __device__ explicit Filler(int) {}
    __device__ void store(uint8_t*) const {}
  };
};

// Bias policies: `of` is subtracted from the eight codes from 8 · eight on; `times` corrects a dot product with
// activations of this sum.
template <int kBias>
struct ConstantBias {
  static constexpr bool kNeedsSums = kBias != 0, kLowers = false;
  static __device__ __forceinline__ int of(const GroupCodes&, int) { return kBias; }
  static __device__ __forceinline__ int times(const GroupCodes&, int sum) { return kBias ? -kBias * sum : 0; }
};
struct OwnBias {
  static constexpr bool kNeedsSums = true, kLowers = false;
  static __device__ __forceinline__ int of(const GroupCodes& group, int) { return group.bias; }
  static __device__ __forceinline__ int times(const GroupCodes& group, int sum) { return -group.bias * sum; }
};
template <int kBias>
struct LoweredBias : ConstantBias<kBias> { // codes 8j to 8j + 7 are byte j of `lowered` (0 or 2) too large
  static constexpr bool kLowers = true;    // subtracted by the dot product, not `times`
  static __device__ __forceinline__ int of(const GroupCodes& group, int eight) {
    return kBias + static_cast<int>(group.lowered >> (8 * eight) & 2);
  }
};

// Scale policies: `product` turns integer dot products, one per separate scale, into a part of the row's sum. `x`: an
// IntegerGroup.
template <typename X>
__device__ __forceinline__ float scaled(const float (&scale)[2], const int (&dot)[1], const X& x) {
  return scale[0] * (static_cast<float>(dot[0]) * x.scale);
}
template <typename X>
__device__ __forceinline__ float scaled(const float (&scale)[2], const int (&dot)[2], const X& x) {
  return (scale[0] * static_cast<float>(dot[0]) + scale[1] * static_cast<float>(dot[1])) * x.scale;
}

// Constants that policies override:
//   kHasOffset       the offset is not 0
//   kBlockScale      `product` omits Layout::block_scale of eight groups, to be applied to their sum
//   kConstantScale   `product` omits this constant, to be applied to the row's result
struct ScaleOnly {
  static constexpr bool kHasOffset = false, kBlockScale = false;
  static constexpr float kConstantScale = 1;
  template <typename Dot, typename X>
  static __device__ __forceinline__ float product(const GroupCodes& w, const Dot& dot, const X& x) {
    return scaled(w.scale, dot, x);
  }
};
struct ScaleAndOffset : ScaleOnly {
  static constexpr bool kHasOffset = true;
  template <typename X>
  static __device__ __forceinline__ float product(const GroupCodes& w, const int (&dot)[1], const X& x) {
    return scaled(w.scale, dot, x) + w.offset[0] * x.scaled_sum;
  }
};
struct RelativeScale : ScaleOnly { // scale[h] = relative[h] times omitted factors
  template <typename Dot, typename X>
  static __device__ __forceinline__ float product(const GroupCodes& w, const Dot& dot, const X& x) {
    return scaled(w.relative, dot, x);
  }
};

template <typename Format, typename ScalePolicy, typename BiasPolicy>
struct PackedLayout {
  static_assert(quant::PackedFormat<Format>);
  using Scales = ScalePolicy;
  using Bias = BiasPolicy;
  static constexpr int kGroupWeights = 32;
  static constexpr bool kHalfScales = Format::kScaleWeights == 16, kHasOffset = Scales::kHasOffset,
                        kBlockScale = Scales::kBlockScale;
  static constexpr float kConstantScale = Scales::kConstantScale;
  using Lut = NoLut;
  static constexpr int tile_payload(int groups) {
    return groups / kBlockGroups<Format> * static_cast<int>(sizeof(Format));
  }
};

template <typename Format>
struct UnpackedScales : ScaleOnly {
  static constexpr bool kHasOffset = Format::kHasOffset;
  template <typename Dot, typename X>
  static __device__ __forceinline__ float product(const GroupCodes& w, const Dot& dot, const X& x) {
    if constexpr (kHasOffset)
      return scaled(w.scale, dot, x) + scaled(w.offset, x.sum, x);
    else
      return scaled(w.scale, dot, x);
  }
};

// Keeps the file's blocks: works for new formats, but bound by instructions.
template <typename Format>
struct Layout : PackedLayout<Format, UnpackedScales<Format>, ConstantBias<0>> {
  static __device__ void store(const Format& block, int in_block, uint8_t* tile, int, int group) {
    if (in_block != 0) return;
    const auto* from = reinterpret_cast<const uint8_t*>(&block);
    uint8_t* to = tile + group / kBlockGroups<Format> * sizeof(Format);
    for (unsigned i = 0; i < sizeof(Format); ++i) to[i] = from[i];
  }

  struct Raw {
    const Format* block;
    int in_block;
  };
  static __device__ __forceinline__ void fetch(Raw& raw, const uint8_t* tile, int, int group) {
    raw = {reinterpret_cast<const Format*>(tile) + group / kBlockGroups<Format>, group % kBlockGroups<Format>};
  }
  static __device__ __forceinline__ void unpack(GroupCodes& out, const Raw& raw, int, NoLut = {}) {
    quant::Group unpacked;
    raw.block->unpack(raw.in_block, unpacked);
#pragma unroll
    for (int k = 0; k < 8; ++k)
      out.word[k] = static_cast<uint8_t>(unpacked.code[4 * k]) | static_cast<uint8_t>(unpacked.code[4 * k + 1]) << 8 |
                    static_cast<uint8_t>(unpacked.code[4 * k + 2]) << 16 |
                    static_cast<uint32_t>(static_cast<uint8_t>(unpacked.code[4 * k + 3])) << 24;
    for (int s = 0; s < 2; ++s) out.scale[s] = unpacked.scale[s], out.offset[s] = unpacked.offset[s];
  }
};

} // namespace ridge::kernels::cuda
