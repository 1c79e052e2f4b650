// Dot products and panels per weight format. Each part (formats0.cpp, …) compiles every kFormatParts-th format.
#if defined(RIDGE_CPU_FORMATS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_FORMATS_INL_H
#undef RIDGE_CPU_FORMATS_INL_H
#else
#define RIDGE_CPU_FORMATS_INL_H
#endif

#include "kernels/cpu/formats/dots_neon-inl.h"
#include "kernels/cpu/formats/unpack-inl.h"
#include "kernels/cpu/formats/unpack_avx2-inl.h"
#include "kernels/cpu/formats/unpack_codebook-inl.h"
#include "kernels/cpu/formats/unpack_codebook_neon-inl.h"
#include "kernels/cpu/formats/unpack_gather-inl.h"
#include "kernels/cpu/formats/unpack_neon-inl.h"
#include "kernels/cpu/formats/unpack_planar-inl.h"
#include "kernels/cpu/formats/unpack_wide-inl.h"
#include "quant/all_formats.h"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

// −kBias × Σ codes from −128 × Σ codes, where exact.
template <int kBias>
HWY_INLINE VI bias_of(VI bias128) {
  if constexpr (kBias == 128) return bias128;
  if constexpr (kBias == 32) return hn::ShiftRight<2>(bias128);
  if constexpr (kBias == 16) return hn::ShiftRight<3>(bias128);
  if constexpr (kBias == 8) return hn::ShiftRight<4>(bias128);
  if constexpr (kBias == 4) return hn::ShiftRight<5>(bias128);
  return hn::Mul(hn::ShiftRight<7>(bias128), hn::Set(kI, kBias));
}

template <int kGroup>
struct DotInput {
  const int8_t *code, *low;
  const float *scale, *sum;
  const int32_t* bias;
  DotInput() = default;
  explicit HWY_INLINE DotInput(const QuantizedRow& x)
      : code(x.code()), low(x.wide ? x.low() : nullptr), scale(x.scale()), sum(kGroup == 16 ? x.sum16() : x.sum32()),
        bias(kGroup == 16 ? x.bias16() : x.bias32()) {}
};

// Adds products to sums of whole vectors of 16 columns or more. Inputs' codes are never −128; their low halves may be.
template <typename Format, ByteDots kDots, bool kLow>
HWY_INLINE VI dot(VI sum, VI code, VI value) {
#if RIDGE_NEON
  return dot16<kDots, !kLow>(sum, code, value);
#else // a small bias implies at most six bits
  return Unpacker<Format>::kBias < 128 ? dot4_small(sum, code, value) : dot4(sum, code, value);
#endif
}

// total += chunk · x[column …].
template <typename Format, ByteDots kDots>
HWY_INLINE void add_chunk(const Chunk& chunk, int64_t column, const DotInput<Format::kScaleWeights>& x,
                          VF (&total)[kSumVectors]) {
  constexpr int kBias = Unpacker<Format>::kBias;
  VI dots[kCodeVectors], sums[kSumVectors];
  for (int64_t j = 0; j < kCodeVectors; ++j)
    dots[j] = dot<Format, kDots, false>(hn::Zero(kI), chunk.code[j], load_int(x.code + column + 4 * kLanes * j));
  if (x.low)
    for (int64_t j = 0; j < kCodeVectors; ++j)
      dots[j] =
          dot<Format, kDots, true>(hn::ShiftLeft<8>(dots[j]), chunk.code[j], load_int(x.low + column + 4 * kLanes * j));
  add_groups<Format::kScaleWeights>(dots, sums);
  for (int64_t j = 0; j < kSumVectors; ++j) {
    const int64_t at = column / 16 + j * kLanes;
    if constexpr (kBias != 0) sums[j] = hn::Add(sums[j], bias_of<kBias>(hn::LoadU(kI, x.bias + at)));
    total[j] = hn::MulAdd(hn::Mul(hn::ConvertTo(kF, sums[j]), chunk.scale[j]), hn::LoadU(kF, x.scale + at), total[j]);
    if constexpr (Format::kHasOffset) total[j] = hn::MulAdd(chunk.offset[j], hn::LoadU(kF, x.sum + at), total[j]);
  }
}

template <typename Format, ByteDots kDots, bool kOne>
HWY_INLINE void dot_rows(const std::byte* rows, int64_t row_bytes, int64_t count, int64_t cols, const QuantizedRow* x,
                         int64_t tokens, float* const* out) {
  using Input = DotInput<Format::kScaleWeights>;
  constexpr int64_t kMax = kOne ? 1 : kDotTokens;
  if (kOne) tokens = 1;
  Input inputs[kMax];
  for (int64_t t = 0; t < tokens; ++t) inputs[t] = Input(x[t]);
  for (int64_t r = 0; r < count; ++r) {
    const std::byte* row = rows + r * row_bytes;
    VF totals[kMax][kSumVectors];
    for (int64_t t = 0; t < kMax; ++t)
      for (int64_t j = 0; j < kSumVectors; ++j) totals[t][j] = hn::Zero(kF);
    for (int64_t column = 0; column < cols; column += kChunk) {
      const ChunkBlocks<Format> blocks(row, cols, column);
      prefetch<kChunk / Format::kWeights * sizeof(Format)>(blocks.get());
      Chunk chunk;
      unpack_chunk<Format, kDots>(blocks.get(), chunk);
      for (int64_t t = 0; t < tokens; ++t) add_chunk<Format, kDots>(chunk, column, inputs[t], totals[t]);
    }
    for (int64_t t = 0; t < tokens; ++t) out[t][r] = join<Format::kScaleWeights>(totals[t]);
  }
}

template <typename Format, ByteDots kDots>
void dot_codes_by(const std::byte* rows, int64_t row_bytes, int64_t count, int64_t cols, const QuantizedRow* x,
                  int64_t tokens, float* const* out) {
  if (tokens == 1)
    dot_rows<Format, kDots, true>(rows, row_bytes, count, cols, x, 1, out);
  else
    dot_rows<Format, kDots, false>(rows, row_bytes, count, cols, x, tokens, out);
}

template <typename Format>
void dot_codes(const std::byte* rows, int64_t row_bytes, int64_t count, int64_t cols, const QuantizedRow* x,
               int64_t tokens, float* const* out) {
#if RIDGE_NEON
  if (byte_dots() != ByteDots::basic)
    return dot_codes_by<Format, ByteDots::dotprod>(rows, row_bytes, count, cols, x, tokens, out);
#endif
  if constexpr (kGathers<Format>)
    if (byte_dots() == ByteDots::amx)
      return dot_codes_by<Format, ByteDots::amx>(rows, row_bytes, count, cols, x, tokens, out);
  dot_codes_by<Format, ByteDots::basic>(rows, row_bytes, count, cols, x, tokens, out);
}

// code[r]: kChunk columns of row `first` + r. panel: CodePanel::code from the first of these columns.
HWY_INLINE void transpose_codes(const uint8_t (&code)[16][kChunk], uint8_t (*panel)[4], int64_t first) {
#if RIDGE_NEON
  if (byte_dots() == ByteDots::i8mm) {
    for (int64_t w = 0; w < kChunk / 8; w += 2)
      for (int64_t r = 0; r < 16; r += 2) {
        const auto a = vreinterpretq_u64_u8(vld1q_u8(code[r] + 8 * w));
        const auto b = vreinterpretq_u64_u8(vld1q_u8(code[r + 1] + 8 * w));
        vst1q_u8(panel[2 * (w * kPanelRows + first + r)], vreinterpretq_u8_u64(vzip1q_u64(a, b)));
        vst1q_u8(panel[2 * ((w + 1) * kPanelRows + first + r)], vreinterpretq_u8_u64(vzip2q_u64(a, b)));
      }
    return;
  }
#endif
  for (int64_t w = 0; w < kChunk / 4; w += 16)
    transpose16(reinterpret_cast<const uint32_t*>(code[0]) + w, kChunk / 4,
                reinterpret_cast<uint32_t*>(panel[w * kPanelRows + first]), kPanelRows);
}

template <typename Format>
void pack_codes(const std::byte* rows, int64_t row_bytes, int64_t count, int64_t cols, int64_t first_col,
                CodePanel& panel) {
  using Unpack = Unpacker<Format>;
  constexpr int64_t kStep = Format::kScaleWeights / 16; // scales of 32 are duplicated
  alignas(64) uint8_t code[16][kChunk];
  alignas(64) float scale[16][kChunk / 16], offset[16][kChunk / 16], spread[kChunk / 16][16];
  const VI bias = hn::Set(kI, kSignedCodes ? 0 : (128 - Unpack::kBias) * 0x01010101);
  const int64_t end = std::min(first_col + kCodePanelCols, round_up(cols, kChunk));
  for (int64_t half = 0; half < kPanelRows; half += 16) {
    for (int64_t column = first_col; column < end; column += kChunk) {
      for (int64_t r = 0; r < 16; ++r) {
        const ChunkBlocks<Format> blocks(rows + std::min(half + r, count - 1) * row_bytes, cols, column);
        Chunk chunk;
        Unpack::unpack(blocks.get(), chunk);
        for (int64_t j = 0; j < kCodeVectors; ++j)
          hn::StoreU(hn::Add(chunk.code[j], bias), kI, reinterpret_cast<int32_t*>(code[r]) + kLanes * j);
        for (int64_t j = 0; j < kScaleVectors; ++j) {
          hn::StoreU(chunk.scale[j], kF, scale[r] + kLanes * j);
          if constexpr (Format::kHasOffset) hn::StoreU(chunk.offset[j], kF, offset[r] + kLanes * j);
        }
      }
      const int64_t group = (column - first_col) / Format::kScaleWeights;
      transpose_codes(code, panel.code[(column - first_col) / 4], half);
      const auto keep = [&](const float(&from)[16][kChunk / 16], float(*to)[kPanelRows]) HWY_ATTR {
        transpose16(reinterpret_cast<const uint32_t*>(from[0]), kChunk / 16, reinterpret_cast<uint32_t*>(spread[0]),
                    16);
        for (int64_t g = 0; g < kChunk / Format::kScaleWeights; ++g)
          std::copy_n(spread[g * kStep], 16, to[group + g] + half);
      };
      keep(scale, panel.scale);
      if constexpr (Format::kHasOffset) keep(offset, panel.offset);
    }
  }
}

// i: a multiple of kLanes.
HWY_INLINE VF load_scaled(const quant::FP8_E4M3* block, int64_t i) { return load_e4m3(block->qs + i, block->d); }
HWY_INLINE VF levels_of(const quant::LevelBlock* block, int64_t i, const float (&levels)[16]) {
  return load_levels(block->qs + i / 32 * 16 + i % 16, i % 32 >= 16, levels, block->d);
}
HWY_INLINE VF load_scaled(const quant::NF4* block, int64_t i) { return levels_of(block, i, quant::kNf4Levels); }
HWY_INLINE VF load_scaled(const quant::FP4* block, int64_t i) { return levels_of(block, i, quant::kFp4Levels); }

// column: a multiple of kLanes.
template <typename Format>
HWY_INLINE VF load_weights(const std::byte* row, int64_t column) {
  const Format* block = reinterpret_cast<const Format*>(row) + column / Format::kWeights;
  if constexpr (!quant::ScalarFormat<Format>)
    return load_scaled(block, column % Format::kWeights);
  else if constexpr (std::is_same_v<Format, quant::F32>)
    return load_float(reinterpret_cast<const float*>(block));
  else if constexpr (std::is_same_v<Format, quant::BF16>)
    return load_bfloat(reinterpret_cast<const uint16_t*>(block));
  else
    return load_half(reinterpret_cast<const uint16_t*>(block));
}

template <quant::ScalarFormat Format>
float weight_at(const std::byte* row, int64_t column) {
  return reinterpret_cast<const Format*>(row)[column].value();
}

// `count` <= kChunk weights from `column` (a multiple of kChunk), bit-identical to quant::decode. `out`: kChunk floats.
template <typename Format>
HWY_INLINE void decode_piece(const std::byte* row, int64_t cols, int64_t column, int64_t count, float* out) {
  if constexpr (quant::FloatFormat<Format>) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) hn::StoreU(load_weights<Format>(row, column + i), kF, out + i);
    if constexpr (quant::ScalarFormat<Format>)
      for (; i < count; ++i) out[i] = weight_at<Format>(row, column + i);
  } else {
    Chunk chunk;
    Unpacker<Format>::unpack(ChunkBlocks<Format>(row, cols, column).get(), chunk);
    alignas(64) uint8_t code[kChunk];
    alignas(64) float scale[kChunk / 16], offset[kChunk / 16];
    for (int64_t j = 0; j < kCodeVectors; ++j)
      hn::StoreU(chunk.code[j], kI, reinterpret_cast<int32_t*>(code) + kLanes * j);
    for (int64_t j = 0; j < kScaleVectors; ++j) {
      hn::StoreU(chunk.scale[j], kF, scale + kLanes * j);
      if constexpr (Format::kHasOffset) hn::StoreU(chunk.offset[j], kF, offset + kLanes * j);
    }
    const hn::Rebind<CodeByte, FloatTag> bytes;
    const VI bias = hn::Set(kI, Unpacker<Format>::kBias);
    for (int64_t i = 0; i < kChunk; i += kLanes) {
      const VI q = hn::Sub(hn::PromoteTo(kI, hn::LoadU(bytes, reinterpret_cast<const CodeByte*>(code) + i)), bias);
      VF w = hn::Mul(hn::Set(kF, scale[i / 16]), hn::ConvertTo(kF, q));
      if constexpr (Format::kHasOffset) w = hn::Add(w, hn::Set(kF, offset[i / 16]));
      hn::StoreU(w, kF, out + i);
    }
  }
}

// Several rows give independent additions.
template <typename Format, int kRows>
HWY_INLINE void dot_float_rows(const std::byte* rows, int64_t row_bytes, int64_t cols, const float* x, float* out) {
  alignas(64) float decoded[kRows][kChunk];
  VF sum[kRows][kSumVectors];
  for (int r = 0; r < kRows; ++r)
    for (int64_t j = 0; j < kSumVectors; ++j) sum[r][j] = hn::Zero(kF);
  const auto add = [&](const float* values, auto weights) HWY_ATTR {
    HWY_UNROLL(4)
    for (int64_t j = 0; j < kSumVectors; ++j) {
      const VF value = hn::LoadU(kF, values + j * kLanes);
      HWY_UNROLL(4)
      for (int r = 0; r < kRows; ++r) sum[r][j] = hn::MulAdd(weights(r, j * kLanes), value, sum[r][j]);
    }
  };
  for (int64_t column = 0; column < cols; column += kChunk) {
    const int64_t n = std::min(kChunk, cols - column), offset = column / Format::kWeights * sizeof(Format);
    for (int r = 0; r < kRows; ++r) {
      const std::byte* row = rows + r * row_bytes;
      prefetch<kChunk * sizeof(Format) / Format::kWeights>(row + offset);
      if constexpr (!quant::FloatFormat<Format>) decode_piece<Format>(row, cols, column, n, decoded[r]);
    }
    constexpr int64_t kStep =
        quant::FloatFormat<Format> ? std::max<int64_t>(kPartialSums, Format::kWeights) : kPartialSums;
    int64_t i = 0;
    for (; i + kStep <= n; i += kStep) {
      const std::byte* row = rows + (column + i) / Format::kWeights * static_cast<int64_t>(sizeof(Format));
      HWY_UNROLL(4)
      for (int64_t s = 0; s < kStep; s += kPartialSums)
        add(x + column + i + s, [&](int r, int64_t at) HWY_ATTR {
          if constexpr (quant::FloatFormat<Format>)
            return load_weights<Format>(row + r * row_bytes, s + at);
          else
            return hn::LoadU(kF, decoded[r] + i + at);
        });
    }
    if constexpr (quant::ScalarFormat<Format>)
      if (i < n) {
        alignas(64) float values[kPartialSums] = {}, weights[kRows][kPartialSums] = {};
        std::copy_n(x + column + i, n - i, values);
        for (int r = 0; r < kRows; ++r)
          for (int64_t k = 0; k < n - i; ++k) weights[r][k] = weight_at<Format>(rows + r * row_bytes, column + i + k);
        add(values, [&](int r, int64_t at) HWY_ATTR { return hn::LoadU(kF, weights[r] + at); });
      }
  }
  for (int r = 0; r < kRows; ++r) out[r] = join<16>(sum[r]);
}

template <typename Format>
void dot_floats(const std::byte* rows, int64_t row_bytes, int64_t count, int64_t cols, const float* x, float* out) {
  int64_t r = 0;
  for (; r + 4 <= count; r += 4) dot_float_rows<Format, 4>(rows + r * row_bytes, row_bytes, cols, x, out + r);
  for (; r < count; ++r) dot_float_rows<Format, 1>(rows + r * row_bytes, row_bytes, cols, x, out + r);
}

template <typename Format>
void pack_floats(const std::byte* rows, int64_t row_bytes, int64_t count, int64_t cols, int64_t first_col,
                 FloatPanel& panel) {
  alignas(64) float decoded[16][kChunk] = {};
  for (int64_t piece = 0; piece < std::min(kFloatPanelCols, cols - first_col); piece += kChunk) {
    const int64_t column = first_col + piece, n = std::min(kChunk, cols - column);
    for (int64_t half = 0; half < kPanelRows; half += 16) {
      for (int64_t r = 0; r < 16; ++r)
        decode_piece<Format>(rows + std::min(half + r, count - 1) * row_bytes, cols, column, n, decoded[r]);
      for (int64_t c = 0; c < n; c += 16)
        transpose16(reinterpret_cast<const uint32_t*>(decoded[0]) + c, kChunk,
                    reinterpret_cast<uint32_t*>(panel.weight[float_panel_place(piece + c)] + half),
                    float_panel_place(1) * kPanelRows);
    }
  }
}

template <typename Format>
FormatKernels kernels_of() {
  FormatKernels kernels;
  kernels.dot_floats = dot_floats<Format>;
  kernels.pack_floats = pack_floats<Format>;
  if constexpr (quant::PackedFormat<Format>) {
    kernels.scale16 = Format::kScaleWeights == 16;
    kernels.has_offset = Format::kHasOffset;
    kernels.dot_codes = dot_codes<Format>;
    kernels.pack_codes = pack_codes<Format>;
  }
  return kernels;
}

enum FormatIndex {
#define RIDGE_FORMAT(name, id, weights, bytes) kIndex_##name,
#include "quant/formats.def"
#undef RIDGE_FORMAT
};

template <int kIndex, typename Format>
void find(uint32_t type, uint32_t id, FormatKernels& kernels) {
  if constexpr (kIndex % kFormatParts == RIDGE_FORMAT_PART)
    if (type == id) kernels = kernels_of<Format>();
}

bool find_kernels(uint32_t type, FormatKernels& kernels) {
#define RIDGE_FORMAT(name, id, weights, bytes) find<kIndex_##name, quant::name>(type, id, kernels);
#include "quant/formats.def"
#undef RIDGE_FORMAT
  return kernels.dot_floats != nullptr;
}

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
