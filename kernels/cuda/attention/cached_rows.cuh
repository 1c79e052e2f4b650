// How attention reads a cache of f16 or q8_0.
#pragma once

#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {

// One head's cached keys or values, [context][kDim], read eight elements at a time, as f16 or as codes with a scale.
template <int kDim, bool kCodes>
struct Rows;

template <int kDim>
struct Rows<kDim, false> {
  const __half* data;
  using Piece = uint4;
  struct Scales { // there are none
    __device__ uint16_t operator[](int) const { return 0; }
  };
  __device__ Rows(const void* cached, const uint16_t*, int64_t first) {
    data = static_cast<const __half*>(cached) + first * kDim;
  }
  __device__ const __half* at(int64_t row, int column) const { return data + row * kDim + column; }
  __device__ Piece load(int64_t row, int column) const { return *reinterpret_cast<const uint4*>(at(row, column)); }
  __device__ Scales scales(int64_t) const { return {}; }
  __device__ uint16_t scale(int64_t, int) const { return 0; }
  static __device__ uint4 halves(Piece piece, uint16_t) { return piece; }
};

template <int kDim>
struct Rows<kDim, true> {
  const int8_t* data;
  const uint16_t* all_scales;
  using Piece = uint2;
  struct alignas(kDim / 16) Scales {
    uint16_t of[kDim / 32];
    __device__ uint16_t operator[](int block) const { return of[block]; }
  };
  __device__ Rows(const void* cached, const uint16_t* scales, int64_t first) {
    data = static_cast<const int8_t*>(cached) + first * kDim;
    all_scales = scales + first * (kDim / 32);
  }
  __device__ const int8_t* at(int64_t row, int column) const { return data + row * kDim + column; }
  __device__ Piece load(int64_t row, int column) const { return *reinterpret_cast<const uint2*>(at(row, column)); }
  __device__ Scales scales(int64_t row) const {
    return *reinterpret_cast<const Scales*>(all_scales + row * (kDim / 32));
  }
  __device__ uint16_t scale(int64_t row, int column) const { return all_scales[row * (kDim / 32) + column / 32]; }
  // With 0x64 above it, a byte b is the f16 1024 + b.
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
