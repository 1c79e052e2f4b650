// The kernels that know weight formats: rows times one token, and panels for the matrix tiles. Each part (formats0.cpp
// …) compiles every kFormatParts-th format for every instruction set.
#if defined(RIDGE_CPU_FORMATS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_FORMATS_INL_H
#undef RIDGE_CPU_FORMATS_INL_H
#else
#define RIDGE_CPU_FORMATS_INL_H
#endif

#include "kernels/cpu/formats/unpack-inl.h"
#include "kernels/cpu/formats/unpack_codebook-inl.h"
#include "kernels/cpu/formats/unpack_planar-inl.h"
#include "kernels/cpu/formats/unpack_wide-inl.h"
#include "quant/all_formats.h"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace { // compiled for several instruction sets: nothing may be merged with a twin

// For code vector j, lane l: where in its scale vector the scale of weights 4 * (j * kLanes + l) … is; repeats every 4.
class ScaleLanes {
 public:
  HWY_INLINE ScaleLanes() {
    for (int64_t j = 0; j < 4; ++j)
      for (int64_t l = 0; l < kLanes; ++l) lane_[j][l] = static_cast<int32_t>((j * kLanes + l) / 4);
  }
  HWY_INLINE VF spread(VF scales, int64_t j) const {
    return hn::TableLookupLanes(scales, hn::SetTableIndices(kF, lane_[j % 4]));
  }

 private:
  alignas(64) int32_t lane_[4][kLanes];
};

template <typename Format>
void dot_codes(const std::byte* rows, int64_t row_bytes, int64_t count, int64_t cols, QuantizedRow x, float* out) {
  using Unpack = Unpacker<Format>;
  const ScaleLanes lanes;
  const VF bias = hn::Set(kF, static_cast<float>(Unpack::kBias));
  for (int64_t r = 0; r < count; ++r) {
    const std::byte* row = rows + r * row_bytes;
    VF sum[4] = {hn::Zero(kF), hn::Zero(kF), hn::Zero(kF), hn::Zero(kF)};
    VF shift = hn::Zero(kF); // what offsets, or the codes' bias, add
    const auto accumulate = [&](const Format* blocks, int64_t column) HWY_ATTR {
      prefetch<kChunk / Format::kWeights * sizeof(Format)>(blocks);
      Chunk chunk;
      Unpack::unpack(blocks, chunk);
      VF scale[kScaleVectors];
      for (int64_t j = 0; j < kScaleVectors; ++j) {
        const int64_t at = column / 16 + j * kLanes;
        VF shifted = chunk.scale[j];
        if constexpr (Format::kHasOffset)
          shifted = Unpack::kBias ? hn::NegMulAdd(bias, chunk.scale[j], chunk.offset[j]) : chunk.offset[j];
        shift = hn::MulAdd(shifted, hn::LoadU(kF, x.sum16() + at), shift);
        scale[j] = hn::Mul(chunk.scale[j], hn::LoadU(kF, x.scale16() + at));
      }
      for (int64_t j = 0; j < kCodeVectors; ++j) {
        const int64_t at = column + 4 * kLanes * j;
        VI dot = dot4(hn::Zero(kI), chunk.code[j], load_int(x.code() + at));
        if (x.wide) dot = dot4(hn::ShiftLeft<8>(dot), chunk.code[j], load_int(x.low() + at));
        sum[j % 4] = hn::MulAdd(hn::ConvertTo(kF, dot), lanes.spread(scale[j / 4], j), sum[j % 4]);
      }
    };
    int64_t column = 0;
    for (; column + kChunk <= cols; column += kChunk)
      accumulate(reinterpret_cast<const Format*>(row) + column / Format::kWeights, column);
    if (column < cols) accumulate(ChunkBlocks<Format>(row, cols, column).get(), column);
    VF total = hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
    total = Format::kHasOffset ? hn::Add(total, shift) : hn::NegMulAdd(bias, shift, total);
    out[r] = sum_of(total);
  }
}

template <typename Format>
void pack_codes(const std::byte* rows, int64_t row_bytes, int64_t count, int64_t cols, int64_t first_col,
                CodePanel& panel) {
  using Unpack = Unpacker<Format>;
  constexpr int64_t kStep =
      Format::kScaleWeights / 16; // every group of 16 has a row in `scale`: keep each or every other
  alignas(64) uint8_t code[16][kChunk];
  alignas(64) float scale[16][kChunk / 16], offset[16][kChunk / 16], spread[kChunk / 16][16];
  const VI bias = hn::Set(kI, (128 - Unpack::kBias) * 0x01010101); // no byte overflows
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
      const int64_t word = (column - first_col) / 4, group = (column - first_col) / Format::kScaleWeights;
      for (int64_t w = 0; w < kChunk / 4; w += 16)
        transpose16(reinterpret_cast<const uint32_t*>(code[0]) + w, kChunk / 4,
                    reinterpret_cast<uint32_t*>(panel.code[word + w][half]), kPanelRows);
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

// kLanes numbers from number i, a multiple of kLanes, on, that times the block's scale are its weights.
HWY_INLINE VF load_unscaled(const quant::FP8_E4M3* block, int64_t i) { return load_e4m3(block->qs + i); }
HWY_INLINE VF levels_of(const quant::LevelBlock* block, int64_t i, const float (&levels)[16]) {
  return load_levels(block->qs + i / 32 * 16 + i % 16, i % 32 >= 16, levels);
}
HWY_INLINE VF load_unscaled(const quant::NF4* block, int64_t i) { return levels_of(block, i, quant::kNf4Levels); }
HWY_INLINE VF load_unscaled(const quant::FP4* block, int64_t i) { return levels_of(block, i, quant::kFp4Levels); }

// kLanes weights of a row of a float format, from `column`, a multiple of kLanes, on.
template <typename Format>
HWY_INLINE VF load_weights(const std::byte* row, int64_t column) {
  const Format* block = reinterpret_cast<const Format*>(row) + column / Format::kWeights;
  if constexpr (!quant::ScalarFormat<Format>)
    return hn::Mul(hn::Set(kF, block->d), load_unscaled(block, column % Format::kWeights));
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

// Decodes `count` (at most kChunk) weights of a row from `column`, a multiple of kChunk, on to f32: bit for bit what
// quant::decode gives. `out` has room for a chunk.
template <typename Format>
HWY_INLINE void decode_piece(const std::byte* row, int64_t cols, int64_t column, int64_t count, float* out) {
  if constexpr (quant::FloatFormat<Format>) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) hn::StoreU(load_weights<Format>(row, column + i), kF, out + i);
    if constexpr (quant::ScalarFormat<Format>) // rows of others are whole blocks
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
    const hn::Rebind<uint8_t, FloatTag> bytes;
    const VI bias = hn::Set(kI, Unpacker<Format>::kBias);
    for (int64_t i = 0; i < kChunk; i += kLanes) {
      const VI q = hn::Sub(hn::PromoteTo(kI, hn::LoadU(bytes, code + i)), bias);
      VF w = hn::Mul(hn::Set(kF, scale[i / 16]), hn::ConvertTo(kF, q));
      if constexpr (Format::kHasOffset) w = hn::Add(w, hn::Set(kF, offset[i / 16]));
      hn::StoreU(w, kF, out + i);
    }
  }
}

template <typename Format>
void dot_scaled_floats(const std::byte* rows, int64_t row_bytes, int64_t count, int64_t cols, const float* x,
                       float* out) {
  for (int64_t r = 0; r < count; ++r) {
    const auto* block = reinterpret_cast<const Format*>(rows + r * row_bytes);
    VF sum = hn::Zero(kF);
    for (int64_t column = 0; column < cols; column += Format::kWeights, ++block) {
      prefetch<sizeof(Format)>(block);
      VF part = hn::Zero(kF);
      for (int64_t i = 0; i < Format::kWeights; i += kLanes)
        part = hn::MulAdd(load_unscaled(block, i), hn::LoadU(kF, x + column + i), part);
      sum = hn::MulAdd(hn::Set(kF, block->d), part, sum);
    }
    out[r] = sum_of(sum);
  }
}

template <typename Format>
void dot_floats(const std::byte* rows, int64_t row_bytes, int64_t count, int64_t cols, const float* x, float* out) {
  alignas(64) float decoded[kChunk];
  for (int64_t r = 0; r < count; ++r) {
    const std::byte* row = rows + r * row_bytes;
    VF sum[4] = {hn::Zero(kF), hn::Zero(kF), hn::Zero(kF), hn::Zero(kF)};
    double rest = 0;
    for (int64_t column = 0; column < cols; column += kChunk) {
      const int64_t n = std::min(kChunk, cols - column);
      prefetch<kChunk * sizeof(Format) / Format::kWeights>(row + column / Format::kWeights * sizeof(Format));
      if constexpr (!quant::FloatFormat<Format>) decode_piece<Format>(row, cols, column, n, decoded);
      const auto weights = [&](int64_t i) HWY_ATTR {
        if constexpr (quant::FloatFormat<Format>)
          return load_weights<Format>(row, column + i);
        else
          return hn::LoadU(kF, decoded + i);
      };
      int64_t i = 0;
      for (; i + 4 * kLanes <= n; i += 4 * kLanes)
        for (int j = 0; j < 4; ++j)
          sum[j] = hn::MulAdd(weights(i + j * kLanes), hn::LoadU(kF, x + column + i + j * kLanes), sum[j]);
      for (; i + kLanes <= n; i += kLanes) sum[0] = hn::MulAdd(weights(i), hn::LoadU(kF, x + column + i), sum[0]);
      if constexpr (quant::ScalarFormat<Format>)
        for (; i < n; ++i) rest += static_cast<double>(weight_at<Format>(row, column + i)) * x[column + i];
    }
    const VF total = hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
    out[r] = static_cast<float>(sum_of(total) + rest);
  }
}

template <typename Format>
void pack_floats(const std::byte* rows, int64_t row_bytes, int64_t count, int64_t cols, int64_t first_col,
                 FloatPanel& panel) {
  alignas(64) float decoded[16][kFloatPanelCols] = {};
  const int64_t n = std::min(kFloatPanelCols, cols - first_col);
  for (int64_t half = 0; half < kPanelRows; half += 16) {
    for (int64_t r = 0; r < 16; ++r)
      decode_piece<Format>(rows + std::min(half + r, count - 1) * row_bytes, cols, first_col, n, decoded[r]);
    for (int64_t c = 0; c < n; c += 16)
      transpose16(reinterpret_cast<const uint32_t*>(decoded[0]) + c, kFloatPanelCols,
                  reinterpret_cast<uint32_t*>(panel.weight[c] + half), kPanelRows);
  }
}

template <typename Format>
FormatKernels kernels_of() {
  FormatKernels kernels;
  if constexpr (quant::FloatFormat<Format> && !quant::ScalarFormat<Format>)
    kernels.dot_floats = dot_scaled_floats<Format>;
  else
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
