// Layouts of IQ1_S, IQ1_M and TQ1_0.
#pragma once

#include "kernels/cuda/layout/layout_iq.cuh"
#include "quant/formats/iq1_m.h"
#include "quant/formats/iq1_s.h"
#include "quant/formats/tq1_0.h"

namespace ridge::kernels::cuda {

// Four indices in 48 bits, six of them free (2 to 5 of the last 16): a word's number and a bit for its half, placed so
// that few instructions give the address.
template <typename Table>
struct Iq1Indices {
  // First word: bit 0 halves[1], 1-10 words[0], 11-15 of words[3], 16 halves[0], 17-26 words[1], 27-31 of words[3];
  // last 16 bits: 0 halves[3], 1 halves[2], 6-15 words[2].
  static __device__ void store(const uint32_t (&index)[4], uint32_t others, uint8_t* word, uint8_t* rest) {
    uint32_t number[4], half[4];
    for (int j = 0; j < 4; ++j) number[j] = index[j] / 2, half[j] = index[j] % 2;
    store1(word, half[1] | number[0] << 1 | (number[3] >> 5) << 11 | half[0] << 16 | number[1] << 17 |
                     (number[3] & 31) << 27);
    store_short(rest, half[3] | half[2] << 1 | others << 2 | number[2] << 6);
  }
  template <typename Lut>
  static __device__ __forceinline__ void look_up(uint32_t (&selectors)[4], uint32_t word, uint32_t rest,
                                                 const Lut& lut) {
    selectors[0] = lut.half_word(word & 0x107fe, 32, 2);
    selectors[1] = lut.half_word(word & 0x7fe0001, 2, 32);
    selectors[2] = lut.half_word(rest);
    selectors[3] = lut.half_word((select_bits(0xf800, word, word >> 21) & Table::kMask) | (rest << 1 & 2));
  }
  // Codes 0, 8 and 16.
  template <typename Lut>
  static __device__ __forceinline__ void digits(uint32_t* codes, uint32_t selectors, const Lut& lut) {
    codes[0] = permute(lut.constant, eight_digits(false, 1), selectors);
    codes[1] = permute(lut.second, eight_digits(true, 1), selectors);
  }
};

struct Iq1SParts : HalvesScale<8> {
  using Format = quant::IQ1_S;
  using Table = Iq1Table;
  static constexpr int kWords = 3;
  static constexpr int block_scale_at(int groups, int block) { return 6 * groups + 2 * block; }

  using Indices = Iq1Indices<Table>;

  // 4 + 2 bytes: indices, scale, shift; then d
  static __device__ void store(const Format& block, int in_block, uint8_t* tile, int groups, int group) {
    uint32_t index[4];
    for (int j = 0; j < 4; ++j) index[j] = block.qs[4 * in_block + j] | (block.qh[in_block] >> (3 * j) & 7u) << 8;
    Indices::store(index, block.qh[in_block] >> 12, tile + 4 * group, tile + 4 * groups + 2 * group);
    if (in_block == 0) store_half(tile + block_scale_at(groups, group / 8), block.d);
  }
  static __device__ __forceinline__ void fetch(uint32_t (&raw)[kWords], const uint8_t* tile, int groups, int group) {
    raw[0] = word_at(tile + 4 * group);
    raw[1] = short_at(tile + 4 * groups + 2 * group);
    raw[2] = short_at(tile + block_scale_at(groups, group / 8));
  }
  template <typename Lut>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const uint32_t (&raw)[kWords], int, const Lut& lut) {
    uint32_t selectors[4];
    Indices::look_up(selectors, raw[0], raw[1], lut);
#pragma unroll
    for (int j = 0; j < 4; ++j) Indices::digits(out.word + 2 * j, selectors[j], lut);
    out.bias = raw[1] & 32 ? 9 : 7;
    const uint32_t factor = twice<3>(raw[1], 2);
    scale(out, half_of(raw[2]), factor, factor);
  }
};

struct Iq1MParts : HalvesScale<8> {
  using Format = quant::IQ1_M;
  using Table = Iq1Table;
  static constexpr int kWords = 4;
  static constexpr int block_scale_at(int groups, int block) { return 6 * groups + 8 * block; }

  using Indices = Iq1Indices<Table>;

  // 4 + 2 bytes: indices, four shifts; 8 per block: d, two 3-bit scales per group
  static __device__ void store(const Format& block, int in_block, uint8_t* tile, int groups, int group) {
    uint32_t index[4], shifts = 0;
    for (int j = 0; j < 4; ++j) {
      const uint32_t high = block.qh[2 * in_block + j / 2] >> (4 * (j & 1));
      index[j] = block.qs[4 * in_block + j] | (high & 7) << 8;
      shifts |= (high >> 3 & 1) << j;
    }
    Indices::store(index, shifts, tile + 4 * group, tile + 4 * groups + 2 * group);
    if (in_block != 0) return;
    uint64_t d_and_scales = 0;
    for (int i = 0; i < 4; ++i) {
      d_and_scales |= static_cast<uint64_t>(block.scales[i] >> 12) << (4 * i);
      d_and_scales |= static_cast<uint64_t>(block.scales[i] & 0xfff) << (16 + 12 * i);
    }
    store2(tile + block_scale_at(groups, group / 8), static_cast<uint32_t>(d_and_scales),
           static_cast<uint32_t>(d_and_scales >> 32));
  }
  static __device__ __forceinline__ void fetch(uint32_t (&raw)[kWords], const uint8_t* tile, int groups, int group) {
    raw[0] = word_at(tile + 4 * group);
    raw[1] = short_at(tile + 4 * groups + 2 * group);
    load2(raw + 2, tile + block_scale_at(groups, group / 8));
  }
  template <typename Lut>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const uint32_t (&raw)[kWords], int group,
                                                const Lut& lut) {
    uint32_t selectors[4];
    Indices::look_up(selectors, raw[0], raw[1], lut);
#pragma unroll
    for (int j = 0; j < 4; ++j) Indices::digits(out.word + 2 * j, selectors[j], lut);
    out.lowered = (raw[1] >> 1 & 30) * 0x204081 & 0x02020202;
    const int in_block = group % 8;
    const uint32_t scales =
        __funnelshift_r(in_block < 3 ? raw[2] : raw[3], raw[3], in_block < 3 ? 15 + 6 * in_block : 6 * in_block - 17);
    scale(out, half_of(raw[2]), scales & 14, scales >> 3 & 14);
  }
};

struct Tq1Parts : RelativeScale {
  static constexpr bool kBlockScale = true;
  using Format = quant::TQ1_0;
  using Table = TernaryTable;
  static constexpr int kWords = 4;
  static constexpr int block_scale_at(int groups, int block) { return 6 * groups + groups / 2 + 2 * block; }

  // 4 and 2 bytes: five digits each, of weights 4k to 4k + 3 and 24 + k. Twice a quarter of a byte: the last two
  // digits, of even groups in bits 0-1 and 4-5, of odd ones in bits 2-3 and 6-7. Then d.
  static __device__ void store(const Format& block, int in_block, uint8_t* tile, int groups, int group) {
    quant::Group unpacked{};
    const auto digit = [&](int i) { return static_cast<uint32_t>(unpacked.code[i] + 1); };
    if (in_block % 2 == 0) {
      uint32_t last = 0;
      for (int g = 0; g < 2; ++g) {
        block.unpack(in_block + g, unpacked);
        last |= (digit(30) | digit(31) << 4) << (2 * g);
      }
      tile[6 * groups + group / 2] = static_cast<uint8_t>(last);
    }
    block.unpack(in_block, unpacked);
    uint32_t five[6];
    for (int k = 0; k < 6; ++k) {
      five[k] = digit(24 + k);
      for (int i = 3; i >= 0; --i) five[k] = 3 * five[k] + digit(4 * k + i);
    }
    store1(tile + 4 * group, five[0] | five[1] << 8 | five[2] << 16 | five[3] << 24);
    store_short(tile + 4 * groups + 2 * group, five[4] | five[5] << 8);
    if (in_block == 0) store_half(tile + block_scale_at(groups, group / 8), block.d);
  }
  static __device__ __forceinline__ void fetch(uint32_t (&raw)[kWords], const uint8_t* tile, int groups, int group) {
    raw[0] = word_at(tile + 4 * group);
    raw[1] = short_at(tile + 4 * groups + 2 * group);
    raw[2] = tile[6 * groups + group / 2];
    raw[3] = short_at(tile + block_scale_at(groups, group / 8));
  }
  template <typename Lut>
  static __device__ __forceinline__ void unpack(GroupCodes& out, const uint32_t (&raw)[kWords], int group,
                                                const Lut& lut) {
    uint32_t point[6];
#pragma unroll
    for (int k = 0; k < 6; ++k) {
      point[k] = lut.of_byte(raw[k / 4], k % 4);
      out.word[k] = permute(lut.constant, 0, point[k]);
    }
    const auto fifths = [&](int k) { return permute(point[k], point[k + 1], 0x0062); };
    out.word[6] = permute(fifths(0), fifths(2), 0x5410);
    out.word[7] = permute(lut.constant, fifths(4), (raw[2] << (8 - 2 * (group & 1)) & 0x3300) | 0x0054);
    out.scale_by_block(half_of(raw[3]), 1, 1);
  }
};

// clang-format off
template <> struct Layout<quant::IQ1_S>   : LutLayout<Iq1SParts, OwnBias> {};
template <> struct Layout<quant::IQ1_M>   : LutLayout<Iq1MParts, LoweredBias<7>> {};
template <> struct Layout<quant::TQ1_0>   : LutLayout<Tq1Parts> {};
// clang-format on

} // namespace ridge::kernels::cuda
