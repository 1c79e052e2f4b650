// Layouts of the codebook formats (layout_lut.cuh). Parts are also scale policies.
#pragma once

#include "kernels/cuda/layout/layout_lut.cuh"
#include "quant/formats/iq2_s.h"
#include "quant/formats/iq2_xs.h"
#include "quant/formats/iq2_xxs.h"
#include "quant/formats/iq3_s.h"
#include "quant/formats/iq3_xxs.h"

namespace ridge::kernels::cuda {

template <typename Parts, typename Bias = ConstantBias<0>>
struct LutLayout : PackedLayout<typename Parts::Format, Parts, Bias> {
  using Format = typename Parts::Format;
  using Lut = SharedLut<typename Parts::Table>;
  static __device__ void store(const Format& block, int in_block, uint8_t* tile, int groups, int group) {
    Parts::store(block, in_block, tile, groups, group);
  }

  struct Raw {
    uint32_t word[Parts::kWords];
  };
  static __device__ __forceinline__ void fetch(Raw& raw, const uint8_t* tile, int groups, int group) {
    Parts::fetch(raw.word, tile, groups, group);
  }
  template <typename AnyLut = GlobalLut<typename Parts::Table>>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const Raw& raw, int group, const AnyLut& lut = {}) {
    Parts::unpack(out, raw.word, group, lut);
  }
  static __device__ __forceinline__ float block_scale(const uint8_t* tile, int groups, int block) {
    return half_of(short_at(tile + Parts::block_scale_at(groups, block)));
  }
};

// Scales (2n + 1) / kParts_ of the block's d.
template <int kParts_>
struct HalvesScale : ScaleOnly {
  static constexpr bool kBlockScale = true;
  static constexpr float kConstantScale = 1.0f / kParts_;
  static __device__ __forceinline__ void scale(GroupCodes& out, float d, uint32_t first, uint32_t second) {
    const float step = d * kConstantScale;
    out.block_scale = d;
    out.factor[0] = static_cast<int>(first);
    out.factor[1] = static_cast<int>(second);
    for (int s = 0; s < 2; ++s) out.scale[s] = step * static_cast<float>(out.factor[s] + 1);
    out.offset[0] = out.offset[1] = 0;
  }
  // factor[h] is 2n: adding the dot product once more is free.
  template <typename X>
  static __device__ __forceinline__ float product(const GroupCodes& w, const int (&dot)[1], const X& x) {
    return static_cast<float>(dot[0] * w.factor[0] + dot[0]) * x.scale;
  }
  template <typename X>
  static __device__ __forceinline__ float product(const GroupCodes& w, const int (&dot)[2], const X& x) {
    return static_cast<float>(dot[0] * w.factor[0] + dot[0] + (dot[1] * w.factor[1] + dot[1])) * x.scale;
  }
};
template <int kBits>
__device__ __forceinline__ uint32_t twice(uint32_t word, int from) {
  return moved(word, from, 1) & ((2u << kBits) - 2);
}

struct Iq2XxsParts : HalvesScale<8> {
  using Format = quant::IQ2_XXS;
  using Table = Iq2XxsTable;
  static constexpr int kWords = 3;
  static constexpr int block_scale_at(int groups, int block) { return 8 * groups + 2 * block; }

  // 8 bytes: four indices, even signs, scale; then d
  static __device__ void store(const Format& block, int in_block, uint8_t* tile, int groups, int group) {
    const uint16_t* q = block.qs + 4 * in_block;
    const uint32_t bits = q[2] | static_cast<uint32_t>(q[3]) << 16;
    uint8_t signs[4];
    for (int j = 0; j < 4; ++j) signs[j] = quant::eight_signs(bits >> (7 * j));
    store2(tile + 8 * group, q[0] | static_cast<uint32_t>(q[1]) << 16,
           even_signs_with(signs_by_nibble(signs), bits >> 28));
    if (in_block == 0) store_half(tile + block_scale_at(groups, group / 8), block.d);
  }
  static __device__ __forceinline__ void fetch(uint32_t (&raw)[kWords], const uint8_t* tile, int groups, int group) {
    load2(raw, tile + 8 * group);
    raw[2] = short_at(tile + block_scale_at(groups, group / 8));
  }
  template <typename Lut>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const uint32_t (&raw)[kWords], int, const Lut& lut) {
    const uint32_t signs = even_signs(raw[1]);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      select_codes(out.word + 2 * j, lut.constant, kIq2Negative, lut.of_byte(raw[0], j) | sign_selectors(signs, j));
    const uint32_t factor = twice<4>(raw[1], 28);
    scale(out, half_of(raw[2]), factor, factor);
  }
};

__device__ __forceinline__ void scale_nibbles(GroupCodes& out, uint32_t half, uint32_t byte) {
  HalvesScale<8>::scale(out, half_of(half), twice<4>(byte, 0), twice<4>(byte, 4));
}

struct Iq2XsParts : HalvesScale<8> {
  using Format = quant::IQ2_XS;
  using Table = Iq2XsTable;
  static constexpr int kWords = 4;
  static constexpr int block_scale_at(int groups, int block) { return 9 * groups + 2 * block; }

  // 8 bytes: the last index's upper five bits, three indices, even signs, its lower four; then scales, d
  static __device__ void store(const Format& block, int in_block, uint8_t* tile, int groups, int group) {
    uint32_t index[4];
    uint8_t signs[4];
    for (int j = 0; j < 4; ++j) {
      index[j] = block.qs[4 * in_block + j] & 511;
      signs[j] = quant::eight_signs(block.qs[4 * in_block + j] >> 9);
    }
    store2(tile + 8 * group, index[3] >> 4 | index[0] << 5 | index[1] << 14 | index[2] << 23,
           even_signs_with(signs_by_nibble(signs), index[3] & 15));
    tile[8 * groups + group] = block.scales[in_block];
    if (in_block == 0) store_half(tile + block_scale_at(groups, group / 8), block.d);
  }
  static __device__ __forceinline__ void fetch(uint32_t (&raw)[kWords], const uint8_t* tile, int groups, int group) {
    load2(raw, tile + 8 * group);
    raw[2] = tile[8 * groups + group];
    raw[3] = short_at(tile + block_scale_at(groups, group / 8));
  }
  template <typename Lut>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const uint32_t (&raw)[kWords], int, const Lut& lut) {
    const uint32_t signs = even_signs(raw[1]);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      select_codes(out.word + 2 * j, lut.constant, kIq2Negative,
                   lut(j < 3 ? moved(raw[0], 5 + 9 * j, Table::kAt) : aligned(raw[1], raw[0], 28, Table::kAt)) |
                       sign_selectors(signs, j));
    scale_nibbles(out, raw[3], raw[2]);
  }
};

struct Iq2SParts : HalvesScale<8> {
  using Format = quant::IQ2_S;
  using Table = Iq2STable;
  static constexpr int kWords = 4;
  static constexpr int block_scale_at(int groups, int block) { return 10 * groups + 2 * block; }

  // 8 bytes: the last index's upper two bits, three indices, signs; 2 bytes: scales, its lower eight; then d
  static __device__ void store(const Format& block, int in_block, uint8_t* tile, int groups, int group) {
    uint32_t index[4];
    uint8_t signs[4];
    for (int j = 0; j < 4; ++j) {
      index[j] = block.qs[4 * in_block + j] | (block.qh[in_block] >> (2 * j) & 3u) << 8;
      signs[j] = block.signs[4 * in_block + j];
    }
    store2(tile + 8 * group, index[3] >> 8 | index[0] << 2 | index[1] << 12 | index[2] << 22, signs_by_nibble(signs));
    store_short(tile + 8 * groups + 2 * group, block.scales[in_block] | index[3] << 8);
    if (in_block == 0) store_half(tile + block_scale_at(groups, group / 8), block.d);
  }
  static __device__ __forceinline__ void fetch(uint32_t (&raw)[kWords], const uint8_t* tile, int groups, int group) {
    load2(raw, tile + 8 * group);
    raw[2] = short_at(tile + 8 * groups + 2 * group);
    raw[3] = short_at(tile + block_scale_at(groups, group / 8));
  }
  template <typename Lut>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const uint32_t (&raw)[kWords], int, const Lut& lut) {
#pragma unroll
    for (int j = 0; j < 4; ++j)
      select_codes(out.word + 2 * j, lut.constant, kIq2Negative,
                   lut(j < 3 ? moved(raw[0], 2 + 10 * j, Table::kAt) : aligned(raw[2] << 16, raw[0], 24, Table::kAt)) |
                       sign_selectors(raw[1], j));
    scale_nibbles(out, raw[3], raw[2]);
  }
};

struct Iq3XxsParts : HalvesScale<4> {
  using Format = quant::IQ3_XXS;
  using Table = Iq3XxsTable;
  static constexpr int kWords = 4;
  static constexpr int block_scale_at(int groups, int block) { return 12 * groups + 2 * block; }

  // 8 bytes: eight indices; 4 bytes: even signs, scale; then d
  static __device__ void store(const Format& block, int in_block, uint8_t* tile, int groups, int group) {
    const uint32_t bits = block.signs_scale[2 * in_block] | static_cast<uint32_t>(block.signs_scale[2 * in_block + 1])
                                                                << 16;
    uint8_t signs[4];
    uint32_t indices[2] = {0, 0};
    for (int j = 0; j < 4; ++j) signs[j] = quant::eight_signs(bits >> (7 * j));
    for (int k = 0; k < 8; ++k) indices[k / 4] |= static_cast<uint32_t>(block.qs[8 * in_block + k]) << (8 * (k % 4));
    store2(tile + 8 * group, indices[0], indices[1]);
    store1(tile + 8 * groups + 4 * group, even_signs_with(signs_by_nibble(signs), bits >> 28));
    if (in_block == 0) store_half(tile + block_scale_at(groups, group / 8), block.d);
  }
  static __device__ __forceinline__ void fetch(uint32_t (&raw)[kWords], const uint8_t* tile, int groups, int group) {
    load2(raw, tile + 8 * group);
    raw[2] = word_at(tile + 8 * groups + 4 * group);
    raw[3] = short_at(tile + block_scale_at(groups, group / 8));
  }
  template <typename Lut>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const uint32_t (&raw)[kWords], int, const Lut& lut) {
    const uint32_t signs = even_signs(raw[2]);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const uint32_t selectors = sign_selectors(signs, j) | lut.constant;
      const uint32_t first = lut.of_byte(raw[j / 2], j % 2 * 2), second = lut.of_byte(raw[j / 2], j % 2 * 2 + 1);
      out.word[2 * j] = permute(first, 0x01010100 - first, selectors);
      out.word[2 * j + 1] = permute_upper(second, 0x01010100 - second, selectors);
    }
    const uint32_t factor = twice<4>(raw[2], 28);
    scale(out, half_of(raw[3]), factor, factor);
  }
};

// Codes are odd, stored as c for 2c + 1: inverting all bits negates.
struct Iq3SParts : ScaleAndOffset {
  using Format = quant::IQ3_S;
  using Table = Iq3STable;
  static constexpr int kWords = 6;
  static constexpr int block_scale_at(int groups, int block) { return 13 * groups + groups / 2 + 2 * block; }

  // 8 bytes: two words of three indices and one's lower five bits; 4 bytes: signs, bit 8i + k of weight 4k + i; 1 byte:
  // the upper four bits of those two; half a byte: scale; then d
  static __device__ void store(const Format& block, int in_block, uint8_t* tile, int groups, int group) {
    uint32_t index[8], word[2], signs = 0;
    for (int k = 0; k < 8; ++k) {
      index[k] = block.qs[8 * in_block + k] | (block.qh[in_block] >> k & 1u) << 8;
      for (int i = 0; i < 4; ++i) signs |= (block.signs[4 * in_block + k / 2] >> (k % 2 * 4 + i) & 1u) << (8 * i + k);
    }
    for (int w = 0; w < 2; ++w)
      word[w] =
          rotated(index[3 * w] | index[3 * w + 1] << 9 | index[3 * w + 2] << 18 | index[6 + w] << 27, 0, Table::kAt);
    store2(tile + 8 * group, word[0], word[1]);
    store1(tile + 8 * groups + 4 * group, signs);
    tile[12 * groups + group] = static_cast<uint8_t>(index[6] >> 5 | (index[7] >> 5) << 4);
    if (in_block % 2 == 0) tile[13 * groups + group / 2] = block.scales[in_block / 2];
    if (in_block == 0) store_half(tile + block_scale_at(groups, group / 8), block.d);
  }
  static __device__ __forceinline__ void fetch(uint32_t (&raw)[kWords], const uint8_t* tile, int groups, int group) {
    load2(raw, tile + 8 * group);
    raw[2] = word_at(tile + 8 * groups + 4 * group);
    raw[3] = tile[12 * groups + group];
    raw[4] = tile[13 * groups + group / 2];
    raw[5] = short_at(tile + block_scale_at(groups, group / 8));
  }
  template <typename Lut>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const uint32_t (&raw)[kWords], int group,
                                                const Lut& lut) {
    constexpr uint32_t kLowerFive = 31u << Table::kAt;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      uint32_t index;
      if (k < 6)
        index = rotated(raw[k / 3], 9 * (k % 3), 0);
      else
        index = select_bits(kLowerFive, rotated(raw[k - 6], 27, 0), moved(raw[3], 4 * (k - 6), Table::kAt + 5));
      out.word[k] = lut(index) ^ sign_bytes(raw[2] << (7 - k));
    }
    const float s = half_of(raw[5]) * static_cast<float>(1 + 2 * (raw[4] >> (4 * (group & 1)) & 15));
    out.scale[0] = out.scale[1] = 2 * s;
    out.offset[0] = out.offset[1] = s;
  }
};

// clang-format off
template <> struct Layout<quant::IQ2_XXS> : LutLayout<Iq2XxsParts> {};
template <> struct Layout<quant::IQ2_XS>  : LutLayout<Iq2XsParts> {};
template <> struct Layout<quant::IQ2_S>   : LutLayout<Iq2SParts> {};
template <> struct Layout<quant::IQ3_XXS> : LutLayout<Iq3XxsParts> {};
template <> struct Layout<quant::IQ3_S>   : LutLayout<Iq3SParts> {};
// clang-format on

} // namespace ridge::kernels::cuda
