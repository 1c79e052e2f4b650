// NF4 and FP4 like bitsandbytes, without a search: used to measure the error of its files.
#include "quant/encode/tiles.h"
#include "quant/formats/fp4.h"
#include "quant/formats/level_tables.h"
#include "quant/formats/nf4.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ridge::quant {
namespace {

template <typename Format>
void encode_levels(const float* weights, const float (&levels)[16], std::byte* out) {
  float largest = 0.0f;
  for (int i = 0; i < Format::kWeights; ++i) largest = std::max(largest, std::abs(weights[i]));
  const float per_scale = largest > 0.0f ? 1.0f / std::max(largest, 0x1p-126f) : 0.0f;
  Format block{};
  block.d = SplitFloat::from(largest);
  for (int i = 0; i < Format::kWeights; ++i) {
    const float x = weights[i] * per_scale;
    int nearest = 0;
    for (int level = 1; level < 16; ++level)
      if (std::abs(levels[level] - x) < std::abs(levels[nearest] - x)) nearest = level;
    uint8_t& byte = block.qs[16 * (i / 32) + i % 16];
    byte = static_cast<uint8_t>(byte | nearest << (i % 32 < 16 ? 0 : 4));
  }
  std::memcpy(out, &block, sizeof block);
}

template <typename Format, const float (&kLevels)[16]>
void encode_blocks(const float* weights, const float*, int64_t, int64_t, int64_t count, std::byte* out) {
  for (int64_t i = 0; i < count; ++i)
    encode_levels<Format>(weights + i * Format::kWeights, kLevels, out + i * static_cast<int64_t>(sizeof(Format)));
}

} // namespace

EncodeBlocks find_level_encoder(Type type) {
  if (type == Type::NF4) return &encode_blocks<NF4, kNf4Levels>;
  if (type == Type::FP4) return &encode_blocks<FP4, kFp4Levels>;
  return nullptr;
}

} // namespace ridge::quant
