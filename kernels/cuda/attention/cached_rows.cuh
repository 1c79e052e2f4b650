// Reads caches, those of f16 and of codes in tiles. Ragged kernels take the head width at run time, and zeros for
// missing columns.
#pragma once

#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/ptx.cuh"
#include "quant/cache_codes.h"

namespace ridge::kernels::cuda {

inline constexpr float kLog2e = 1.4426950408889634f;

// Keys or values of a layer.
struct CachedSide {
  const void* data;
  core::KvType type;
  CachedBlocks blocks;
};
__device__ __forceinline__ CachedSide cached_keys(const Cache& cache) {
  return {cache.k, cache.k_type, cache.k_blocks};
}
__device__ __forceinline__ CachedSide cached_values(const Cache& cache) {
  return {cache.v, cache.v_type, cache.v_blocks};
}

// One element, by its index in all rows.
__device__ __forceinline__ float cached_element(const CachedSide& from, int64_t at) {
  using enum core::KvType;
  const auto half = [](const uint16_t* halves, int64_t i) { return __half2float(__ushort_as_half(halves[i])); };
  switch (from.type) {
  case f16: return __half2float(static_cast<const __half*>(from.data)[at]);
  case f32: return static_cast<const float*>(from.data)[at];
  case bf16: return core::f32_from_bf16(static_cast<const uint16_t*>(from.data)[at]);
  case q8_0: return static_cast<const int8_t*>(from.data)[at] * half(from.blocks.scales, at / 32);
  default: break;
  }
  const int pair = static_cast<int>(at % 8 / 2), odd = static_cast<int>(at % 2);
  int code = static_cast<const uint32_t*>(from.data)[at / 8] >> (4 * pair + 16 * odd) & 15;
  if (from.blocks.high_bits) code |= (from.blocks.high_bits[at / 8] >> (pair + 4 * odd) & 1) << 4;
  const int level = from.type == iq4_nl ? quant::kIq4Levels[code]
                                        : code - (from.type == q4_0   ? 8
                                                  : from.type == q5_0 ? 16
                                                                      : 0);
  return level * half(from.blocks.scales, at / 32) + (from.blocks.minima ? half(from.blocks.minima, at / 32) : 0);
}

// Maps up to cache.rows positions from `first` on to rows, with a single division.
struct RowsFrom {
  int lap, count;
  __device__ __forceinline__ RowsFrom() {}
  __device__ __forceinline__ RowsFrom(const Cache& cache, int first)
      : lap(cache.ring_base(first)), count(static_cast<int>(cache.rows)) {}
  __device__ __forceinline__ int operator()(int position) const {
    const int row = position - lap;
    return row < count ? row : row - count; // the ring buffer wraps
  }
};

template <int kDim, bool kRagged>
struct HeadWidth {
  __device__ __forceinline__ explicit HeadWidth(int) {}
  __device__ __forceinline__ static constexpr int get() { return kDim; }
  __device__ __forceinline__ static constexpr bool has(int) { return true; }
};
template <int kDim>
struct HeadWidth<kDim, true> {
  int width; // a multiple of 16
  __device__ __forceinline__ explicit HeadWidth(int width) : width(width) {}
  __device__ __forceinline__ int get() const { return width; }
  __device__ __forceinline__ bool has(int column) const { return column < width; }
};

// Eight codes to f16, as code * scale + minimum.
class CodeReader {
 public:
  __device__ __forceinline__ explicit CodeReader(core::KvType type)
      : bytes_(type == core::KvType::q8_0), levels_(type == core::KvType::iq4_nl) {
    // The f16 number 1024 + code less this is the level.
    zero_ = type == core::KvType::q4_0 ? 0x6408 : type == core::KvType::q5_0 ? 0x6410 : 0x6400;
  }
  // `codes`: eight bytes, or eight nibbles and their high bits.
  __device__ __forceinline__ uint4 operator()(uint2 codes, uint16_t scale, uint16_t minimum) const {
    const __half2 factor = __half2half2(__ushort_as_half(scale));
    if (bytes_) return of_bytes(codes, factor);
    const __half2 least = __half2half2(__ushort_as_half(minimum));
    if (levels_) { // tables of eight bytes, by the nibbles' low bits, then the choice between them by the highest
      const auto look_up = [](uint32_t nibbles) {
        const uint32_t low = __byte_perm(0xbfad9881, 0xf6eaddcf, nibbles & 0x7777),
                       high = __byte_perm(0x26190d01, 0x71594535, nibbles & 0x7777);
        return __byte_perm(low, high, 0x3210 | (nibbles & 0x8888) >> 1);
      };
      const uint32_t even = look_up(codes.x & 0xffff), odd = look_up(codes.x >> 16);
      return of_bytes({__byte_perm(even, odd, 0x5140), __byte_perm(even, odd, 0x7362)}, factor);
    }
    const __half2 zero = __half2half2(__ushort_as_half(zero_));
    const uint32_t high_bits = (codes.y | codes.y << 12) << 4;
    const auto pair = [&](int k) {
      const uint32_t raw = 0x64006400 | (codes.x >> 4 * k & 0x000f000f) | (high_bits >> k & 0x00100010);
      const __half2 value = __hfma2(__hsub2(*reinterpret_cast<const __half2*>(&raw), zero), factor, least);
      return *reinterpret_cast<const uint32_t*>(&value);
    };
    return {pair(0), pair(1), pair(2), pair(3)};
  }

 private:
  // A byte b below 0x64 is the f16 number 1024 + b.
  static __device__ __forceinline__ uint4 of_bytes(uint2 codes, __half2 factor) {
    const __half2 offset = __half2half2(__ushort_as_half(0x6480)); // 1024 + 128
    const auto pair = [&](uint32_t bytes, uint32_t select) {
      const uint32_t raw = __byte_perm(bytes ^ 0x80808080, 0x64646464, select);
      const __half2 value = __hmul2(__hsub2(*reinterpret_cast<const __half2*>(&raw), offset), factor);
      return *reinterpret_cast<const uint32_t*>(&value);
    };
    return {pair(codes.x, 0x4140), pair(codes.x, 0x4342), pair(codes.y, 0x4140), pair(codes.y, 0x4342)};
  }

  bool bytes_, levels_;
  uint16_t zero_;
};

// One head's cached keys or values, [rows][width], as f16 or as codes with scales.
template <int kDim, bool kCodes, bool kRagged>
struct Rows;

template <int kDim, bool kRagged>
struct Rows<kDim, false, kRagged> {
  using Width = HeadWidth<kDim, kRagged>;
  const __half* data;
  Width width;
  using Piece = uint4;
  struct Scales {
    __device__ uint32_t operator[](int) const { return 0; }
  };
  __device__ Rows(const CachedSide& from, int64_t first, Width width) : width(width) {
    data = static_cast<const __half*>(from.data) + first * width.get();
  }
  __device__ const __half* at(int64_t row, int column) const { return data + row * width.get() + column; }
  __device__ Piece load(int64_t row, int column) const {
    return width.has(column) ? *reinterpret_cast<const uint4*>(at(row, column)) : uint4{};
  }
  __device__ Scales scales(int64_t) const { return {}; }
  __device__ uint32_t scale(int64_t, int) const { return 0; }
  __device__ uint4 halves(Piece piece, uint32_t) const { return piece; }
};

template <int kDim, bool kRagged>
struct Rows<kDim, true, kRagged> {
  using Width = HeadWidth<kDim, kRagged>;
  const uint8_t* data;
  Width width;
  CachedBlocks blocks;
  bool bytes;
  CodeReader read;
  using Piece = uint2;
  struct alignas(kDim / 16) Halves {
    uint16_t of[kDim / 32];
  };
  // A scale with its minimum above.
  struct Scales {
    Halves scales, minima;
    __device__ uint32_t operator[](int block) const { return scales.of[block] | uint32_t{minima.of[block]} << 16; }
  };
  __device__ Rows(const CachedSide& from, int64_t first, Width width)
      : width(width), blocks(from.blocks), bytes(from.type == core::KvType::q8_0), read(from.type) {
    const int64_t at = first * width.get();
    data = static_cast<const uint8_t*>(from.data) + (bytes ? at : at / 2);
    blocks.scales += at / 32;
    if (blocks.minima) blocks.minima += at / 32;
    if (blocks.high_bits) blocks.high_bits += at / 8;
  }
  __device__ Piece load(int64_t row, int column) const {
    if (!width.has(column)) return {};
    const int64_t at = row * width.get() + column;
    if (bytes) return *reinterpret_cast<const uint2*>(data + at);
    return {*reinterpret_cast<const uint32_t*>(data + at / 2), blocks.high_bits ? blocks.high_bits[at / 8] : 0u};
  }
  __device__ Scales scales(int64_t row) const {
    return {halves_of(blocks.scales, row), blocks.minima ? halves_of(blocks.minima, row) : Halves{}};
  }
  __device__ uint32_t scale(int64_t row, int column) const {
    if (!width.has(column)) return 0;
    const int64_t at = row * (width.get() / 32) + column / 32;
    return blocks.scales[at] | (blocks.minima ? uint32_t{blocks.minima[at]} << 16 : 0);
  }
  __device__ uint4 halves(Piece piece, uint32_t scale) const {
    return read(piece, static_cast<uint16_t>(scale), static_cast<uint16_t>(scale >> 16));
  }

 private:
  __device__ Halves halves_of(const uint16_t* plane, int64_t row) const {
    const uint16_t* from = plane + row * (width.get() / 32);
    if constexpr (kRagged) {
      Halves halves;
#pragma unroll
      for (int block = 0; block < kDim / 32; ++block) halves.of[block] = width.has(32 * block) ? from[block] : 0;
      return halves;
    } else {
      return *reinterpret_cast<const Halves*>(from);
    }
  }
};

// Rotates 32 elements (core/host_device/kv_rotation.h) of neighbouring lanes, kEach consecutive ones in each.
template <int kEach>
__device__ __forceinline__ void rotate_lanes(float (&x)[kEach]) {
#pragma unroll
  for (int step = 1; step < kEach; step *= 2)
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (i % (2 * step) < step) {
        const float a = x[i], b = x[i + step];
        x[i] = a + b, x[i + step] = a - b;
      }
  constexpr int kLanes = kWarp / kEach;
  const unsigned lanes = (~0u >> (kWarp - kLanes)) << (threadIdx.x % kWarp / kLanes * kLanes); // may come alone
#pragma unroll
  for (int step = 1; step < kLanes; step *= 2)
#pragma unroll
    for (float& mine : x) {
      const float other = __shfl_xor_sync(lanes, mine, step);
      mine = threadIdx.x & step ? other - mine : mine + other;
    }
#pragma unroll
  for (float& mine : x) mine *= core::kRotationScale;
}
__device__ __forceinline__ float4 rotated_quad(float4 x) {
  float each[] = {x.x, x.y, x.z, x.w};
  rotate_lanes(each);
  return {each[0], each[1], each[2], each[3]};
}
// `dim` elements in shared memory, by all threads of the block.
__device__ __forceinline__ void rotate_shared(float* x, int dim) {
  __syncthreads();
  for (int i = threadIdx.x; i < dim; i += blockDim.x) {
    float each[] = {x[i]};
    rotate_lanes(each);
    x[i] = each[0];
  }
  __syncthreads();
}

} // namespace ridge::kernels::cuda
