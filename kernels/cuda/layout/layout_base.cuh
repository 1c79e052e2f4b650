// What all layouts are made of: the item, and how its bytes are read and written.
#pragma once

#include "quant/group.h"

#include <cuda_fp16.h>

#include <cstdint>

namespace ridge::kernels::cuda {

inline constexpr int kUnitItems = 32;

// An item of a packed format: weight i is scale[i / 16] * (code i - bias) + offset[i / 16], code i being byte i % 4 of
// word[i / 4], signed. The bias is Layout::kBias, or where Layout::kOwnBias the item's. Where Layout::kFactors, scales
// are also products, scale[h] = Layout::kUnit * unit * factor[h] and offset[h] = offset_unit * offset_factor[h], of
// integers so small that times a dot they stay below 2^31. Where Layout::kOddFactors, factor[h] is one less than that,
// which the product with a dot adds for nothing. Where Layout::kBlockUnit, eight items have one unit,
// Layout::block_unit: then scale[h] = block_unit * relative[h] also where there are no factors, and who sums over the
// eight multiplies once. Where Layout::kRelative without that, scale[h] = Layout::kUnit * relative[h]. Where
// Layout::kLowers, codes 8j to 8j + 7 are lower than they say by byte j of `lowered`, 0 or 2.
struct Item {
  uint32_t word[8];
  float scale[2], offset[2], relative[2];
  float unit, offset_unit;
  int factor[2], offset_factor[2], bias;
  uint32_t lowered;

  __device__ __forceinline__ void scale_by(float s, float o = 0) {
    scale[0] = scale[1] = s;
    offset[0] = offset[1] = o;
  }
  __device__ __forceinline__ void scale_by_unit(float block_unit, float first, float second) {
    relative[0] = first, relative[1] = second;
    scale[0] = block_unit * first, scale[1] = block_unit * second;
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

// Byte i of the result is the byte of {high, low} that bits 0-2 of nibble i of the selector name, or that byte's sign
// in all bits where bit 3 is set. (__byte_perm masks bit 3 out.)
__device__ __forceinline__ uint32_t permute(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selector));
  return result;
}
// The upper half of a word. A product with 0 and 1 instead of a shift, because shifts, permutes and logic share the
// units that unpacking waits for; and hidden from the compiler, which would rather repeat all that made the word,
// shifted.
__device__ __forceinline__ uint32_t upper_half(uint32_t word) {
  uint32_t upper;
  asm("dp2a.lo.u32.u32 %0, %1, %2, %3;" : "=r"(upper) : "r"(word), "r"(0x100), "r"(0));
  return upper;
}
// The same with the upper half of the selector.
__device__ __forceinline__ uint32_t permute_upper(uint32_t low, uint32_t high, uint32_t selector) {
  return permute(low, high, upper_half(selector));
}

// A constant in a register. The assembler would rather load it, or make it again, for each use; what comes out of a
// shuffle of different values it cannot know. For whole warps.
__device__ __forceinline__ uint32_t kept(uint32_t constant) {
  const uint32_t lane = threadIdx.x % 32;
  return __shfl_sync(~0u, constant + lane, static_cast<int>(lane)) - lane;
}

template <typename Format>
inline constexpr int kBlockItems = Format::kWeights / 32;

using RawScale = uint32_t[3];

// An L::Lut is what the unpacking of items looks up: tables in kBytes of shared memory at a multiple of 16, which
// every thread of a block fills a part of (`Lut::template Filler<kThreads>(thread).store(words)`, then
// __syncthreads()), and constants in registers. Made once, by whole warps, for many items. This one is for layouts that
// look nothing up.
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

// What the layout of a packed format is, unless it says otherwise.
template <typename Format>
struct PackedLayout {
  static_assert(quant::PackedFormat<Format>);
  static constexpr int kItemWeights = 32, kBias = 0;
  static constexpr bool kHalfScales = Format::kScaleWeights == 16, kHasOffset = Format::kHasOffset, kFactors = false,
                        kOddFactors = false, kBlockUnit = false, kRelative = false, kOwnBias = false, kLowers = false;
  static constexpr float kUnit = 1;
  using Lut = NoLut;
  static constexpr int unit_payload(int items) {
    return items / kBlockItems<Format> * static_cast<int>(sizeof(Format));
  }
};

// How the weights of a format lie. This one keeps the file's blocks and asks Format::unpack, byte by byte: it makes a
// new format work at once, but costs more instructions than memory takes time.
template <typename Format>
struct Layout : PackedLayout<Format> {
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
  static __device__ __forceinline__ void unpack(Item& out, const Raw& raw, int, NoLut = {}) {
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

} // namespace ridge::kernels::cuda
