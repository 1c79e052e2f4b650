// The device layout of each weight format.
//
// One lane decodes a group: 32 weights of a packed format, 8 or 16 of a float format. A warp tile is 32 groups of a row
// (fewer at its end), aligned to 16 bytes, in planes: codes (four-bit, two-bit, one-bit parts: 16, 8 and 4 bytes per
// group), then scales. Lanes read neighbouring aligned words, four codes each as for dp4a. Size: the file's, rounded up
// to 16 bytes.
//
// `store` converts at upload. `fetch` and `unpack` are separate, so that kernels can load early.
#pragma once

#include "kernels/cuda/layout/layout_codes.cuh"
#include "kernels/cuda/layout/layout_float.cuh"
#include "kernels/cuda/layout/layout_iq.cuh"
#include "kernels/cuda/layout/layout_scales.cuh"
#include "kernels/cuda/layout/layout_ternary.cuh"
#include "quant/formats/affine4.h"
#include "quant/formats/affine8.h"
#include "quant/formats/iq4_xs.h"
#include "quant/formats/nvfp4.h"
#include "quant/formats/nvfp4_scaled.h"
#include "quant/formats/q1_0.h"
#include "quant/formats/q2_0.h"
#include "quant/formats/q2_k.h"
#include "quant/formats/q3_k.h"
#include "quant/formats/q4_0.h"
#include "quant/formats/q4_1.h"
#include "quant/formats/q5_0.h"
#include "quant/formats/q5_1.h"
#include "quant/formats/q5_k.h"
#include "quant/formats/q6_k.h"
#include "quant/formats/q8_0.h"
#include "quant/formats/tq2_0.h"

namespace ridge::kernels::cuda {

template <typename Format, typename CodePlanes, typename Scales, typename Bias = ConstantBias<0>>
struct PlaneLayout : PackedLayout<Format, Scales, Bias> {
  static_assert(!Scales::kBlockScale || kBlockGroups<Format> == 8);
  using Codes = CodePlanes;
  using Lut = typename CodePlanes::Lut;
  static_assert(CodePlanes::kBytes * kBlockGroups<Format> + Scales::kBytes == sizeof(Format), "planes hold every byte");

  static __device__ void store(const Format& block, int in_block, uint8_t* tile, int groups, int group) {
    quant::Group unpacked;
    block.unpack(in_block, unpacked);
    uint8_t code[32];
    const int bias = bias_of(block, in_block);
    for (int i = 0; i < 32; ++i) code[i] = static_cast<uint8_t>(unpacked.code[i] + bias);
    CodePlanes::store(code, tile, groups, group);
    Scales::template store<Format>(block, in_block, tile + CodePlanes::kBytes * groups, groups, group);
  }

  static __device__ int bias_of(const Format& block, int in_block) {
    if constexpr (std::is_same_v<Bias, OwnBias>)
      return block.zero(in_block);
    else
      return Bias::of({}, 0);
  }

  struct Raw {
    uint32_t code[CodePlanes::kWords];
    RawScale scale;
  };
  static __device__ __forceinline__ void fetch(Raw& raw, const uint8_t* tile, int groups, int group) {
    CodePlanes::fetch(raw.code, tile, groups, group);
    Scales::template fetch<Format>(raw.scale, tile + CodePlanes::kBytes * groups, groups, group);
  }
  static __device__ __forceinline__ void unpack(GroupCodes& out, const Raw& raw, int group, const Lut& lut = {}) {
    CodePlanes::unpack(out.word, raw.code, lut);
    Scales::template unpack<Format>(out, raw.scale, group);
  }
  static __device__ __forceinline__ float block_scale(const uint8_t* tile, int groups, int block) {
    return half_of(short_at(tile + CodePlanes::kBytes * groups + Scales::block_scale_at(groups, block)));
  }
};

// clang-format off
template <> struct Layout<quant::Q4_0>   : PlaneLayout<quant::Q4_0, Codes<4>, HalfScale, ConstantBias<8>> {};
template <> struct Layout<quant::Q4_1>   : PlaneLayout<quant::Q4_1, Codes<4>, HalfScaleOffset> {};
template <> struct Layout<quant::Q5_0>   : PlaneLayout<quant::Q5_0, Codes<5>, HalfScale, ConstantBias<16>> {};
template <> struct Layout<quant::Q5_1>   : PlaneLayout<quant::Q5_1, Codes<5>, HalfScaleOffset> {};
template <> struct Layout<quant::Q8_0>   : PlaneLayout<quant::Q8_0, Codes<8>, HalfScale> {};
template <> struct Layout<quant::Q2_K>   : PlaneLayout<quant::Q2_K, Codes<2>, Q2Scales> {};
template <> struct Layout<quant::Q3_K>   : PlaneLayout<quant::Q3_K, Codes<3>, Q3Scales, ConstantBias<4>> {};
template <> struct Layout<quant::Q4_K>   : PlaneLayout<quant::Q4_K, Codes<4>, KScaleMin> {};
template <> struct Layout<quant::Q5_K>   : PlaneLayout<quant::Q5_K, Codes<5>, KScaleMin> {};
template <> struct Layout<quant::Q6_K>   : PlaneLayout<quant::Q6_K, Codes<6>, Q6Scales, ConstantBias<32>> {};
template <> struct Layout<quant::IQ4_NL> : PlaneLayout<quant::IQ4_NL, Iq4Codes, HalfScale> {};
template <> struct Layout<quant::IQ4_XS> : PlaneLayout<quant::IQ4_XS, Iq4Codes, Iq4Scales> {};
template <> struct Layout<quant::MXFP4>  : PlaneLayout<quant::MXFP4, E2m1Codes, PowerScale, ConstantBias<E2m1Codes::kBias>> {};
template <> struct Layout<quant::NVFP4>  : PlaneLayout<quant::NVFP4, E2m1Codes, E4m3Scales, ConstantBias<E2m1Codes::kBias>> {};
template <> struct Layout<quant::NVFP4_SCALED> : PlaneLayout<quant::NVFP4_SCALED, E2m1Codes, ScaledE4m3Scales, ConstantBias<E2m1Codes::kBias>> {};
template <> struct Layout<quant::AFFINE4> : PlaneLayout<quant::AFFINE4, Codes<4>, HalfScaleZero, OwnBias> {};
template <> struct Layout<quant::AFFINE8> : PlaneLayout<quant::AFFINE8, Codes<8>, WideScaleOffset> {};
template <> struct Layout<quant::TQ2_0>  : PlaneLayout<quant::TQ2_0, Codes<2>, SharedHalfScale, ConstantBias<1>> {};
template <> struct Layout<quant::Q2_0>   : PlaneLayout<quant::Q2_0, Codes<2>, HalfScale, ConstantBias<1>> {};
template <> struct Layout<quant::Q1_0>   : PlaneLayout<quant::Q1_0, SignCodes, HalfScale, ConstantBias<1>> {};
// clang-format on

// A row block is kRowBlockRows rows, padded at the matrix's end; its warp tiles of the same columns are contiguous, 1
// to 4 KB.
template <typename Format>
struct TileLayout {
  using L = Layout<Format>;
  static constexpr int kWeights = kTileGroups * L::kGroupWeights;
  static constexpr int rounded(int bytes) { return (bytes + 15) / 16 * 16; }
  static constexpr int kBytes = rounded(L::tile_payload(kTileGroups));
  static constexpr int kRowBlockRows = row_block_rows(kBytes);
  static constexpr int64_t groups_of(int64_t cols) { return (cols + L::kGroupWeights - 1) / L::kGroupWeights; }
  static constexpr int64_t row_bytes(int64_t cols) {
    const int64_t groups = groups_of(cols);
    return groups / kTileGroups * kBytes + rounded(L::tile_payload(static_cast<int>(groups % kTileGroups)));
  }
  static constexpr int64_t matrix_bytes(int64_t rows, int64_t row_bytes) {
    return (rows + kRowBlockRows - 1) / kRowBlockRows * kRowBlockRows * row_bytes;
  }
  static __host__ __device__ __forceinline__ int64_t offset(int64_t row, int tile, int64_t row_bytes) {
    return block_offset(row, row_bytes) + offset_in_block(row, tile, row_bytes);
  }
  static __host__ __device__ __forceinline__ int64_t block_offset(int64_t row, int64_t row_bytes) {
    return row / kRowBlockRows * kRowBlockRows * row_bytes;
  }
  template <typename Int>
  static __host__ __device__ __forceinline__ Int offset_in_block(Int row, int tile, Int row_bytes) {
    const Int before = Int{tile} * kBytes, left = row_bytes - before;
    return kRowBlockRows * before + row % kRowBlockRows * (left < kBytes ? left : kBytes);
  }
};

// Without a `lut`, `unpack` reads the codebook in device memory.
template <typename L, typename... Lut>
__device__ __forceinline__ void load_group(GroupCodes& out, const uint8_t* tile, int groups, int group,
                                           const Lut&... lut) {
  typename L::Raw raw;
  L::fetch(raw, tile, groups, group);
  L::unpack(out, raw, group, lut...);
}

// For packed formats with factor 1, as on the CPU.
template <typename Format, typename... Lut>
__device__ __forceinline__ void load_numbers(Numbers<Layout<Format>::kGroupWeights>& out, const uint8_t* tile,
                                             int groups, int group, const Lut&... lut) {
  using L = Layout<Format>;
  if constexpr (quant::FloatFormat<Format>) {
    typename L::Raw raw;
    L::fetch(raw, tile, groups, group);
    L::unpack(out, raw, lut...);
  } else {
    GroupCodes packed;
    load_group<L>(packed, tile, groups, group);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int code = static_cast<int8_t>(packed.word[i / 4] >> (8 * (i % 4))) - L::Bias::of(packed, i / 8);
      const float scaled = __fmul_rn(packed.scale[i / 16], static_cast<float>(code));
      out.number[i] = L::kHasOffset ? __fadd_rn(scaled, packed.offset[i / 16]) : scaled;
    }
    out.factor = 1;
  }
}

} // namespace ridge::kernels::cuda
