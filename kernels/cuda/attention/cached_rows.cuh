// Reads f16 and q8_0 caches. Ragged kernels take the head width at run time, and zeros for missing columns.
#pragma once

#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {

__device__ __forceinline__ float cached_key(const Cache& cache, int64_t at) {
  if (cache.k_scales)
    return static_cast<const int8_t*>(cache.k)[at] * __half2float(__ushort_as_half(cache.k_scales[at / 32]));
  return cache.k_half ? __half2float(static_cast<const __half*>(cache.k)[at]) : static_cast<const float*>(cache.k)[at];
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

// One head's cached keys or values, [rows][width], as f16 or as codes with a scale.
template <int kDim, bool kCodes, bool kRagged>
struct Rows;

template <int kDim, bool kRagged>
struct Rows<kDim, false, kRagged> {
  using Width = HeadWidth<kDim, kRagged>;
  const __half* data;
  Width width;
  using Piece = uint4;
  struct Scales {
    __device__ uint16_t operator[](int) const { return 0; }
  };
  __device__ Rows(const void* cached, const uint16_t*, int64_t first, Width width) : width(width) {
    data = static_cast<const __half*>(cached) + first * width.get();
  }
  __device__ const __half* at(int64_t row, int column) const { return data + row * width.get() + column; }
  __device__ Piece load(int64_t row, int column) const {
    return width.has(column) ? *reinterpret_cast<const uint4*>(at(row, column)) : uint4{};
  }
  __device__ Scales scales(int64_t) const { return {}; }
  __device__ uint16_t scale(int64_t, int) const { return 0; }
  static __device__ uint4 halves(Piece piece, uint16_t) { return piece; }
};

template <int kDim, bool kRagged>
struct Rows<kDim, true, kRagged> {
  using Width = HeadWidth<kDim, kRagged>;
  const int8_t* data;
  Width width;
  const uint16_t* all_scales;
  using Piece = uint2;
  struct alignas(kDim / 16) Scales {
    uint16_t of[kDim / 32];
    __device__ uint16_t operator[](int block) const { return of[block]; }
  };
  __device__ Rows(const void* cached, const uint16_t* scales, int64_t first, Width width) : width(width) {
    data = static_cast<const int8_t*>(cached) + first * width.get();
    all_scales = scales + first * (width.get() / 32);
  }
  __device__ const int8_t* at(int64_t row, int column) const { return data + row * width.get() + column; }
  __device__ Piece load(int64_t row, int column) const {
    return width.has(column) ? *reinterpret_cast<const uint2*>(at(row, column)) : uint2{};
  }
  __device__ Scales scales(int64_t row) const {
    const uint16_t* from = all_scales + row * (width.get() / 32);
    if constexpr (kRagged) {
      Scales scales;
#pragma unroll
      for (int block = 0; block < kDim / 32; ++block) scales.of[block] = width.has(32 * block) ? from[block] : 0;
      return scales;
    } else {
      return *reinterpret_cast<const Scales*>(from);
    }
  }
  __device__ uint16_t scale(int64_t row, int column) const {
    return width.has(column) ? all_scales[row * (width.get() / 32) + column / 32] : 0;
  }
  // A byte b below 0x64 is the f16 number 1024 + b.
  static __device__ uint4 halves(Piece piece, uint16_t scale) {
    const __half2 factor = __half2half2(__ushort_as_half(scale));
    const __half2 offset = __half2half2(__ushort_as_half(0x6480)); // 1024 + 128
    const auto pair = [&](uint32_t bytes, uint32_t select) {
      const uint32_t raw = __byte_perm(bytes ^ 0x80808080, 0x64646464, select);
      const __half2 value = __hmul2(__hsub2(*reinterpret_cast<const __half2*>(&raw), offset), factor);
      return *reinterpret_cast<const uint32_t*>(&value);
    };
    return {pair(piece.x, 0x4140), pair(piece.x, 0x4342), pair(piece.y, 0x4140), pair(piece.y, 0x4342)};
  }
};

} // namespace ridge::kernels::cuda
