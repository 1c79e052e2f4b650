// Layouts of float formats. A group is 32 bytes of scalars, or 16 weights of a block with a scale.
//
//   unpack(Numbers&, const Raw&, const Lut&)  exact without a lut
//   unpack_halves(pairs, factor, const Raw&)  blocks only: pairs of f16, rounded
//   store(block, piece, tile, groups, group)  blocks only, whose pieces are groups; scalars have place(…)
#pragma once

#include "kernels/cuda/layout/layout_codes.cuh"
#include "kernels/cuda/layout/layout_lut.cuh"
#include "quant/formats/bf16.h"
#include "quant/formats/f16.h"
#include "quant/formats/f32.h"
#include "quant/formats/fp4.h"
#include "quant/formats/fp8_e4m3.h"
#include "quant/formats/nf4.h"

#include <type_traits>

namespace ridge::kernels::cuda {

template <int kCount>
struct Numbers { // weight i is factor · number[i]
  float number[kCount], factor = 1;
};

struct FloatLayout {
  static constexpr bool kBlockScale = false;
  static constexpr float kConstantScale = 1;
  using Lut = NoLut;
};

template <quant::ScalarFormat Format>
struct Layout<Format> : FloatLayout {
  static constexpr int kGroupWeights = 32 / static_cast<int>(sizeof(Format));
  static constexpr int tile_payload(int groups) { return 32 * groups; }

  static __device__ uint8_t* place(uint8_t* tile, int groups, int group, int i) {
    const int byte = i * static_cast<int>(sizeof(Format));
    return tile + byte / 16 * 16 * groups + 16 * group + byte % 16;
  }

  struct Raw {
    uint4 first, second;
  };
  static __device__ __forceinline__ void fetch(Raw& raw, const uint8_t* tile, int groups, int group) {
    raw = {*reinterpret_cast<const uint4*>(tile + 16 * group),
           *reinterpret_cast<const uint4*>(tile + 16 * groups + 16 * group)};
  }
  static __device__ __forceinline__ void unpack(Numbers<kGroupWeights>& out, const Raw& raw, NoLut = {}) {
    uint32_t words[8];
    put(words, raw.first);
    put(words + 4, raw.second);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      if constexpr (sizeof(Format) == 4) {
        out.number[k] = __uint_as_float(words[k]);
      } else if constexpr (std::is_same_v<Format, quant::F16>) {
        put2(out.number + 2 * k, halves_of(words[k]));
      } else {
        out.number[2 * k] = __uint_as_float(words[k] << 16);
        out.number[2 * k + 1] = __uint_as_float(words[k] & 0xffff0000);
      }
    }
  }
};

template <typename Format, int kGroupBytes_>
struct ScaledLayout : FloatLayout {
  static constexpr int kGroupWeights = 16, kGroupBytes = kGroupBytes_;
  static_assert(Format::kWeights == 64 && sizeof(Format) == 4 * kGroupBytes + 4);
  static constexpr int tile_payload(int groups) { return groups / 4 * static_cast<int>(sizeof(Format)); }

  static __device__ float* scale_at(uint8_t* tile, int groups, int group) {
    return reinterpret_cast<float*>(tile + kGroupBytes * groups) + group / 4;
  }
  static __device__ __forceinline__ float scale_of(const uint8_t* tile, int groups, int group) {
    return reinterpret_cast<const float*>(tile + kGroupBytes * groups)[group / 4];
  }
};

// Four weights a, b, c, d per word, f16 without three zero bits: a and b in bits 15 and 13-7 of the halves, c and d in
// bits 14 and 6-0.
template <>
struct Layout<quant::FP8_E4M3> : ScaledLayout<quant::FP8_E4M3, 16> {
  static __device__ void store(const quant::FP8_E4M3& block, int piece, uint8_t* tile, int groups, int group) {
    for (int k = 0; k < 8; ++k) {
      const int first = block.qs[16 * piece + k / 2 * 4 + k % 2], second = block.qs[16 * piece + k / 2 * 4 + k % 2 + 2];
      store_short(tile + 16 * group + 2 * k, static_cast<uint32_t>((first & 0x80) << 8 | (first & 0x7f) << 7 |
                                                                   (second & 0x80) << 7 | (second & 0x7f)));
    }
    if (piece == 0) *scale_at(tile, groups, group) = block.d;
  }

  struct Raw {
    uint32_t word[4];
    float scale;
  };
  static __device__ __forceinline__ void fetch(Raw& raw, const uint8_t* tile, int groups, int group) {
    put(raw.word, *reinterpret_cast<const uint4*>(tile + 16 * group));
    raw.scale = scale_of(tile, groups, group);
  }
  static __device__ __forceinline__ void unpack_halves(uint32_t (&pair)[8], float& factor, const Raw& raw) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      pair[2 * k] = raw.word[k] & 0xbf80bf80;
      pair[2 * k + 1] = (raw.word[k] << 7 & 0x3f803f80) | (raw.word[k] << 1 & 0x80008000);
    }
    factor = 256 * raw.scale; // E4M3's exponent bias is 8 less than binary16's
  }
  static __device__ __forceinline__ void unpack(Numbers<16>& out, const Raw& raw, NoLut = {}) {
    uint32_t pair[8];
    unpack_halves(pair, out.factor, raw);
#pragma unroll
    for (int k = 0; k < 8; ++k) put2(out.number + 2 * k, halves_of(pair[k]));
  }
};

template <typename Format>
struct LevelLayout : ScaledLayout<Format, 8> {
  using Base = ScaledLayout<Format, 8>;
  static __device__ void store(const Format& block, int piece, uint8_t* tile, int groups, int group) {
    for (int k = 0; k < 8; ++k)
      tile[8 * group + k] =
          static_cast<uint8_t>(block.code(16 * piece + 2 * k) | block.code(16 * piece + 2 * k + 1) << 4);
    if (piece == 0) *Base::scale_at(tile, groups, group) = block.d;
  }

  struct Raw {
    uint32_t nibbles[2];
    float scale;
  };
  static __device__ __forceinline__ void fetch(Raw& raw, const uint8_t* tile, int groups, int group) {
    load2(raw.nibbles, tile + 8 * group);
    raw.scale = Base::scale_of(tile, groups, group);
  }

  // Levels as f16 (NMSE 2e-8), in pairs: half the look-ups of binary32, which would take twice shared memory's
  // bandwidth.
  static constexpr uint32_t half_of_level(int code) { // 0 or normal
    const auto bits = std::bit_cast<uint32_t>(Format::level(code)), magnitude = bits & 0x7fffffff;
    return (bits >> 16 & 0x8000) | (magnitude ? (magnitude - 0x38000000 + 0x1000) >> 13 : 0);
  }
  struct LevelTable : Table<256, 32> {
    static __device__ __forceinline__ const uint32_t* words() {
      static constexpr auto table = [] {
        Words<256> pairs{};
        for (int i = 0; i < 256; ++i) pairs.word[i] = half_of_level(i & 15) | half_of_level(i >> 4) << 16;
        return pairs;
      }();
      return table.word;
    }
  };
  using Lut = SharedLut<LevelTable>;
  static __device__ __forceinline__ void unpack(Numbers<16>& out, const Raw& raw, const Lut& lut) {
#pragma unroll
    for (int k = 0; k < 8; ++k) put2(out.number + 2 * k, halves_of(lut.of_byte(raw.nibbles[k / 4], k % 4)));
    out.factor = raw.scale;
  }
  static __device__ __forceinline__ void unpack(Numbers<16>& out, const Raw& raw, NoLut = {}) {
#pragma unroll
    for (int k = 0; k < 16; ++k) out.number[k] = Format::level(raw.nibbles[k / 8] >> (4 * (k % 8)) & 15);
    out.factor = raw.scale;
  }

  static __device__ __forceinline__ void unpack_halves(uint32_t (&pair)[8], float& factor, const Raw& raw) {
    uint32_t low[4], high[4];
    look_up(low, raw.nibbles, {bytes<0, 0>, bytes<0, 1>, bytes<0, 2>, bytes<0, 3>}, 0x32103210);
    look_up(high, raw.nibbles, {bytes<1, 0>, bytes<1, 1>, bytes<1, 2>, bytes<1, 3>}, 0x32103210);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      pair[2 * k] = permute(low[k], high[k], 0x5140);
      pair[2 * k + 1] = permute(low[k], high[k], 0x7362);
    }
    factor = raw.scale;
  }

 private:
  template <int kByte, int kWord>
  static constexpr uint32_t bytes = [] {
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) word |= (half_of_level(4 * kWord + i) >> (8 * kByte) & 0xff) << (8 * i);
    return word;
  }();
};
template <>
struct Layout<quant::NF4> : LevelLayout<quant::NF4> {};
template <>
struct Layout<quant::FP4> : LevelLayout<quant::FP4> {};

} // namespace ridge::kernels::cuda
