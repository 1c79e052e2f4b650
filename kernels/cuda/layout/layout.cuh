// How the weights of each format lie in device memory, and how a lane takes its share of them.
//
// A row is cut into units. A unit is what one warp works on at a time: 32 items, one per lane; an item is a group of 32
// weights (of float formats 8 or 16). Units start at multiples of 16 bytes, so that a warp can fetch them in 16-byte
// pieces whatever the size of a block is. The last unit of a row may hold fewer items.
//
// Inside a unit the pieces of all items lie in planes: first the codes (four-bit part, then two-bit, then one-bit part:
// 16, 8 and 4 bytes per item), then the scales. So the lanes of a warp read neighbouring, aligned words, and codes
// come four to a register, as the integer dot instruction takes them. No bit is added: a unit has as many bytes as the
// file's blocks, rounded up to 16. `store` makes this order at upload from what Format::unpack says; `fetch` reads an
// item's bits and `unpack` makes codes and scales of them, so that a kernel can do the one long before the other. A
// format that no specialisation names keeps its blocks as they are in the file, and `unpack` asks Format::unpack.
#pragma once

#include "kernels/cuda/layout/layout_codes.cuh"
#include "kernels/cuda/layout/layout_float.cuh"
#include "kernels/cuda/layout/layout_iq.cuh"
#include "kernels/cuda/layout/layout_scales.cuh"
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

// A packed format in planes: `Codes` as above, holding code + kBias_, and `Scales`.
template <typename Format, typename CodePlanes, typename Scales, int kBias_ = 0>
struct PlaneLayout : PackedLayout<Format> {
  static constexpr int kBias = kBias_;
  static constexpr bool kFactors = Scales::kFactors, kBlockUnit = Scales::kHasUnit && kBlockItems<Format> == 8,
                        kRelative = kBlockUnit || Scales::kRelative, kOwnBias = Scales::kOwnBias;
  static constexpr float kUnit = Scales::kUnit;
  using Codes = CodePlanes;
  using Lut = typename CodePlanes::Lut;
  static_assert(CodePlanes::kBytes * kBlockItems<Format> + Scales::kBytes == sizeof(Format), "planes hold every byte");

  static __device__ void store(const Format& block, int group, uint8_t* unit, int items, int item) {
    quant::Group unpacked;
    block.unpack(group, unpacked);
    uint8_t code[32];
    const int bias = bias_of(block, group);
    for (int i = 0; i < 32; ++i) code[i] = static_cast<uint8_t>(unpacked.code[i] + bias);
    CodePlanes::store(code, unit, items, item);
    Scales::template store<Format>(block, group, unit + CodePlanes::kBytes * items, items, item);
  }

  static __device__ int bias_of(const Format& block, int group) {
    if constexpr (kOwnBias)
      return Scales::bias(block, group);
    else
      return kBias;
  }

  struct Raw {
    uint32_t code[CodePlanes::kWords];
    RawScale scale;
  };
  static __device__ __forceinline__ void fetch(Raw& raw, const uint8_t* unit, int items, int item) {
    CodePlanes::fetch(raw.code, unit, items, item);
    Scales::template fetch<Format>(raw.scale, unit + CodePlanes::kBytes * items, items, item);
  }
  static __device__ __forceinline__ void unpack(Item& out, const Raw& raw, int item, const Lut& lut = {}) {
    CodePlanes::unpack(out.word, raw.code, lut);
    Scales::template unpack<Format>(out, raw.scale, item);
  }
  // Of items 8 · block to 8 · block + 7 of a unit.
  static __device__ __forceinline__ float block_unit(const uint8_t* unit, int items, int block) {
    return half_of(short_at(unit + CodePlanes::kBytes * items + Scales::unit_at(items, block)));
  }
};

// clang-format off
template <> struct Layout<quant::Q4_0>   : PlaneLayout<quant::Q4_0, Codes<4>, HalfScale, 8> {};
template <> struct Layout<quant::Q4_1>   : PlaneLayout<quant::Q4_1, Codes<4>, HalfScaleOffset> {};
template <> struct Layout<quant::Q5_0>   : PlaneLayout<quant::Q5_0, Codes<5>, HalfScale, 16> {};
template <> struct Layout<quant::Q5_1>   : PlaneLayout<quant::Q5_1, Codes<5>, HalfScaleOffset> {};
template <> struct Layout<quant::Q8_0>   : PlaneLayout<quant::Q8_0, Codes<8>, HalfScale> {};
template <> struct Layout<quant::Q2_K>   : PlaneLayout<quant::Q2_K, Codes<2>, Q2Scales> {};
template <> struct Layout<quant::Q3_K>   : PlaneLayout<quant::Q3_K, Codes<3>, Q3Scales, 4> {};
template <> struct Layout<quant::Q4_K>   : PlaneLayout<quant::Q4_K, Codes<4>, KScaleMin> {};
template <> struct Layout<quant::Q5_K>   : PlaneLayout<quant::Q5_K, Codes<5>, KScaleMin> {};
template <> struct Layout<quant::Q6_K>   : PlaneLayout<quant::Q6_K, Codes<6>, Q6Scales, 32> {};
template <> struct Layout<quant::IQ4_NL> : PlaneLayout<quant::IQ4_NL, Iq4Codes, HalfScale> {};
template <> struct Layout<quant::IQ4_XS> : PlaneLayout<quant::IQ4_XS, Iq4Codes, Iq4Scales> {};
template <> struct Layout<quant::MXFP4>  : PlaneLayout<quant::MXFP4, E2m1Codes, PowerScale, E2m1Codes::kBias> {};
template <> struct Layout<quant::NVFP4>  : PlaneLayout<quant::NVFP4, E2m1Codes, E4m3Scales, E2m1Codes::kBias> {};
template <> struct Layout<quant::NVFP4_SCALED> : PlaneLayout<quant::NVFP4_SCALED, E2m1Codes, ScaledE4m3Scales, E2m1Codes::kBias> {};
template <> struct Layout<quant::AFFINE4> : PlaneLayout<quant::AFFINE4, Codes<4>, HalfScaleZero> {};
template <> struct Layout<quant::AFFINE8> : PlaneLayout<quant::AFFINE8, Codes<8>, WideScaleOffset> {};
template <> struct Layout<quant::TQ2_0>  : PlaneLayout<quant::TQ2_0, Codes<2>, HalfScale, 1> {};
template <> struct Layout<quant::Q2_0>   : PlaneLayout<quant::Q2_0, Codes<2>, HalfScale, 1> {};
template <> struct Layout<quant::Q1_0>   : PlaneLayout<quant::Q1_0, SignCodes, HalfScale, 1> {};
// clang-format on

// Units of a row, in bytes and items, and where they lie: rows go in groups, a group's units of the same columns side
// by side: one piece of 1 to 4 KB for the warp that wants them. The last group of a matrix may be padded.
template <typename Format>
struct Units {
  using L = Layout<Format>;
  static constexpr int kWeights = kUnitItems * L::kItemWeights; // of a full unit
  static constexpr int rounded(int bytes) { return (bytes + 15) / 16 * 16; }
  static constexpr int kBytes = rounded(L::unit_payload(kUnitItems)); // of a full unit
  static constexpr int kGroupRows = kBytes <= 340 ? 8 : kBytes <= 900 ? 4 : 2;
  static constexpr int64_t items_of(int64_t cols) { return (cols + L::kItemWeights - 1) / L::kItemWeights; }
  static constexpr int64_t row_bytes(int64_t cols) {
    const int64_t items = items_of(cols);
    return items / kUnitItems * kBytes + rounded(L::unit_payload(static_cast<int>(items % kUnitItems)));
  }
  static constexpr int64_t matrix_bytes(int64_t rows, int64_t row_bytes) {
    return (rows + kGroupRows - 1) / kGroupRows * kGroupRows * row_bytes;
  }
  // From a matrix's first byte.
  static __host__ __device__ __forceinline__ int64_t offset(int64_t row, int unit, int64_t row_bytes) {
    const int64_t before = int64_t{unit} * kBytes, left = row_bytes - before;
    return row / kGroupRows * kGroupRows * row_bytes + kGroupRows * before +
           row % kGroupRows * (left < kBytes ? left : kBytes);
  }
};

// What is taken from the codes of the eight weights from 8 · eight on.
template <typename L>
__device__ __forceinline__ int bias_of(const Item& item, int eight) {
  return (L::kOwnBias ? item.bias : L::kBias) + (L::kLowers ? static_cast<int>(item.lowered >> (8 * eight) & 2) : 0);
}

// `lut`: an L::Lut, or nothing, which asks the table in device memory.
template <typename L, typename... Lut>
__device__ __forceinline__ void load_item(Item& out, const uint8_t* unit, int items, int item, const Lut&... lut) {
  typename L::Raw raw;
  L::fetch(raw, unit, items, item);
  L::unpack(out, raw, item, lut...);
}

// The weights of an item as floats: of packed formats, factor being 1, as the CPU decodes them.
template <typename Format, typename... Lut>
__device__ __forceinline__ void load_numbers(Numbers<Layout<Format>::kItemWeights>& out, const uint8_t* unit, int items,
                                             int item, const Lut&... lut) {
  using L = Layout<Format>;
  if constexpr (quant::FloatFormat<Format>) {
    typename L::Raw raw;
    L::fetch(raw, unit, items, item);
    L::unpack(out, raw, lut...);
  } else {
    Item packed;
    load_item<L>(packed, unit, items, item);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int code = static_cast<int8_t>(packed.word[i / 4] >> (8 * (i % 4))) - bias_of<L>(packed, i / 8);
      const float scaled = __fmul_rn(packed.scale[i / 16], static_cast<float>(code));
      out.number[i] = L::kHasOffset ? __fadd_rn(scaled, packed.offset[i / 16]) : scaled;
    }
    out.factor = 1;
  }
}

} // namespace ridge::kernels::cuda
