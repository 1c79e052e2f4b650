// Moves blocks to lanes, one block per lane.
#if defined(RIDGE_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_TILES_INL_H
#undef RIDGE_TILES_INL_H
#else
#define RIDGE_TILES_INL_H
#endif

#include "quant/all_formats.h"
#include "quant/encode/block-inl.h"
#include "quant/encode/tiles.h"

#include <algorithm>
#include <cstring>

RIDGE_LANES_BEGIN

// used <= kLanes.
template <typename Format>
HWY_NOINLINE void search_tile(const float* weights, const float* importance, int64_t first_block,
                              int64_t blocks_per_row, int64_t used, Parts* out) {
  constexpr int kWeights = Format::kWeights, kScales = std::max(1, kWeights / Format::kScaleWeights);
  Block<kWeights> b;
  const auto lanes = [](Lanes* vectors) { return reinterpret_cast<float*>(vectors); };
  alignas(64) int32_t places[kLanes];
  for (int lane = 0; lane < kLanes; ++lane)
    places[lane] = std::min(lane, static_cast<int>(used) - 1) * kWeights; // repeats the last block
  const hn::Vec<IntTag> place = hn::Load(kI, places);
  for (int i = 0; i < kWeights; ++i) {
    b.x[i] = hn::GatherIndex(kF, weights + i, place);
    b.w[i] = Lanes(1.0f);
  }
  for (int64_t lane = 0; importance && lane < kLanes; ++lane) {
    const int64_t block = first_block + std::min(lane, used - 1);
    const float* w = importance + block % blocks_per_row * kWeights;
    for (int i = 0; i < kWeights; ++i) lanes(b.w)[i * kLanes + lane] = w[i];
  }
  b.normalize();
  Scheme<Format>::search(b);
  alignas(64) int32_t codes[kWeights / 4][kLanes]; // four bytes of each block
  for (int i = 0; i < kWeights / 4; ++i) {
    const auto byte = [&](int k) { return hn::And(low_bits(b.code[4 * i + k]).v, hn::Set(kI, 0xff)); };
    const auto low = hn::Or(byte(0), hn::ShiftLeft<8>(byte(1)));
    const auto high = hn::Or(hn::ShiftLeft<16>(byte(2)), hn::ShiftLeft<24>(byte(3)));
    hn::Store(hn::Or(low, high), kI, codes[i]);
  }
  for (int64_t lane = 0; lane < used; ++lane) {
    Parts& parts = out[lane];
    for (int i = 0; i < kWeights / 4; ++i) std::memcpy(parts.code + 4 * i, &codes[i][lane], 4);
    for (int i = 0; i < kScales; ++i) {
      parts.scale[i] = lanes(b.scale)[i * kLanes + lane];
      parts.min[i] = lanes(b.min)[i * kLanes + lane];
    }
    parts.d = lanes(&b.d)[lane];
    parts.m = lanes(&b.m)[lane];
  }
}

template <typename Format>
void encode_blocks(const float* weights, const float* importance, int64_t first_block, int64_t blocks_per_row,
                   int64_t count, std::byte* out) {
  Parts parts[kLanes];
  for (int64_t first = 0; first < count; first += kLanes) {
    const int64_t used = std::min<int64_t>(kLanes, count - first);
    search_tile<Format>(weights + first * Format::kWeights, importance, first_block + first, blocks_per_row, used,
                        parts);
    for (int64_t lane = 0; lane < used; ++lane) {
      Format block;
      block.pack(parts[lane]);
      std::memcpy(out + (first + lane) * static_cast<int64_t>(sizeof block), &block, sizeof block);
    }
  }
}

template <typename Format>
void search_blocks(const float* weights, const float* importance, int64_t count, Parts* out) {
  for (int64_t first = 0; first < count; first += kLanes)
    search_tile<Format>(weights + first * Format::kWeights, importance, 0, 1, std::min<int64_t>(kLanes, count - first),
                        out + first);
}

inline SearchBlocks find_search(Type type) {
  switch (type) {
#define RIDGE_FORMAT(name, id, weights, bytes)                                                                         \
  case Type::name:                                                                                                     \
    if constexpr (kHasScheme<name>) return &search_blocks<name>;                                                       \
    break;
#include "quant/formats.def"
#undef RIDGE_FORMAT
  }
  return nullptr;
}

inline EncodeBlocks find_scheme(Type type) {
  switch (type) {
#define RIDGE_FORMAT(name, id, weights, bytes)                                                                         \
  case Type::name:                                                                                                     \
    if constexpr (kHasScheme<name>) return &encode_blocks<name>;                                                       \
    break;
#include "quant/formats.def"
#undef RIDGE_FORMAT
  }
  return nullptr;
}

RIDGE_LANES_END

#endif
