// What all layouts share: the group as a lane holds it, and how its bytes are read and written.
#pragma once

#include "quant/group.h"

#include <cuda_fp16.h>

#include <cstdint>

namespace ridge::kernels::cuda {

inline constexpr int kTileGroups = 32;

// A decoded group of a packed format. Code i is byte i % 4 of word[i / 4], signed; with half h = i / 16,
//   weight i = scale[h] * (code i - bias) + offset[h].
// A layout's constants say which other members are set, so that a dot product can stay in integers longer:
//   kOwnBias       the bias is the member `bias`, else the constant kBias.
//   kFactors       scale[h] = kConstantScale * block_scale * factor[h], and offset[h] = block_offset *
//   offset_factor[h].
//                  These factors are so small that times a dot product they stay below 2^31.
//   kOddFactors    factor[h] is one less than that; adding the dot product once more costs nothing.
//   kBlockScale    eight groups share one scale, Layout::block_scale, and scale[h] = block_scale * relative[h] also
//                  without factors. Who sums over the eight groups multiplies by it once.
//   kRelative      dot products use relative[h]; without kBlockScale, scale[h] = kConstantScale * relative[h].
//   kLowers        codes 8j to 8j + 7 count byte j of `lowered` (0 or 2) less than they say.
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

// Byte i of the result is the byte of {high, low} that bits 0-2 of nibble i of the selector name, or that byte's sign
// in all bits where bit 3 is set. (__byte_perm masks bit 3 out.)
__device__ __forceinline__ uint32_t permute(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selector));
  return result;
}
// The upper half of a word. A dot product with 0 and 1 instead of a shift: shifts, permutes and logic share the
// pipeline that bounds unpacking. In assembly, because the compiler would repeat all that made the word, shifted.
__device__ __forceinline__ uint32_t upper_half(uint32_t word) {
  uint32_t upper;
  asm("dp2a.lo.u32.u32 %0, %1, %2, %3;" : "=r"(upper) : "r"(word), "r"(0x100), "r"(0));
  return upper;
}
// The same with the upper half of the selector.
__device__ __forceinline__ uint32_t permute_upper(uint32_t low, uint32_t high, uint32_t selector) {
  return permute(low, high, upper_half(selector));
}

// A constant that stays in a register. The assembler would load it, or make it again, for each use; it cannot know the
// result of a shuffle of different values. Whole warps call this.
__device__ __forceinline__ uint32_t kept(uint32_t constant) {
  const uint32_t lane = threadIdx.x % 32;
  return __shfl_sync(~0u, constant + lane, static_cast<int>(lane)) - lane;
}

template <typename Format>
inline constexpr int kBlockGroups = Format::kWeights / 32;

using RawScale = uint32_t[3];

// An L::Lut is the lookup table that `unpack` reads: kBytes of shared memory at a multiple of 16, of which every thread
// of a block fills a part (`Lut::template Filler<kThreads>(thread).store(words)`, then __syncthreads()), and constants
// in registers. Whole warps construct it once for many groups. NoLut is for layouts without a table.
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

// The defaults of a packed format's layout.
template <typename Format>
struct PackedLayout {
  static_assert(quant::PackedFormat<Format>);
  static constexpr int kGroupWeights = 32, kBias = 0;
  static constexpr bool kHalfScales = Format::kScaleWeights == 16, kHasOffset = Format::kHasOffset, kFactors = false,
                        kOddFactors = false, kBlockScale = false, kRelative = false, kOwnBias = false, kLowers = false;
  static constexpr float kConstantScale = 1;
  using Lut = NoLut;
  static constexpr int tile_payload(int groups) {
    return groups / kBlockGroups<Format> * static_cast<int>(sizeof(Format));
  }
};

// The layout of a format. This general one keeps the file's blocks and calls Format::unpack, byte by byte: a new format
// works at once, but its instructions take longer than its bytes.
template <typename Format>
struct Layout : PackedLayout<Format> {
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
