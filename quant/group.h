// What every packed format decodes to, and the kinds of format struct.
//
// Nearly all formats look the same at the scale of 32 weights: small integer codes times a
// scale, sometimes plus an offset, where scale and offset change every 32 or every 16 weights. A format header
// therefore has one job, to unpack such a group; f32 rows, integer dot products and matrix tiles are all made from
// groups, once, for all formats.
//
//   packed format:  struct Q4_K { kWeights, kScaleWeights, kHasOffset; fields…; void unpack(int group, Group&) const;
//                                 void pack(const Parts&); }
//   float format:   struct F16  { kWeights = 1; field;                 float value(int) const;
//                                 static F16 from(float); }
//
// A format without integer codes is a float format too, with blocks of several weights.
#pragma once

#include "core/half.h"
#include "core/host_device.h"

#include <cstdint>

namespace ridge::quant {

using core::Half;
using core::SplitFloat;

// 32 consecutive weights: w[i] = scale[i / 16] * code[i] + offset[i / 16], in this order of operations, each rounded to
// f32. Where a format has one scale for all 32, both entries are equal. offset is 0 for formats without one.
// |code| <= 127, so that a code times an 8-bit activation fits the integer dot instructions; only Q8_0
// and AFFINE8 can store -128, which encoders do not write.
struct Group {
  int8_t code[32];
  float scale[2];
  float offset[2];
};

inline constexpr int kGroupWeights = 32;

// A block in numbers, for `pack`, the inverse of `unpack`. Every number is one that the format can hold.
struct Parts {
  int8_t code[256]; // as unpack gives them
  // Integers as they multiply d (m for mins), or the scale itself where a format has no d (MXFP4, NVFP4). One for each
  // kScaleWeights weights.
  float scale[16], min[16];
  float d, m; // m: what multiplies the mins; in formats without mins, the offset
};

template <typename Format>
concept PackedFormat = requires(const Format& block, Group& group) {
  block.unpack(0, group);
  Format::kWeights;
  Format::kScaleWeights; // 16 or 32: how many weights share a scale
  Format::kHasOffset;
};

template <typename Format>
concept FloatFormat = requires(const Format& block) {
  block.value(0); // weight i of the block
};

template <typename Format>
concept ScalarFormat = FloatFormat<Format> && Format::kWeights == 1;

// Decodes one block to f32: the oracle for every faster kernel. `out` has Format::kWeights floats.
template <typename Format>
RIDGE_HD void decode(const Format& block, float* out) {
  if constexpr (FloatFormat<Format>) {
    for (int i = 0; i < Format::kWeights; ++i) out[i] = block.value(i);
  } else {
    for (int g = 0; g < Format::kWeights / kGroupWeights; ++g) {
      Group group;
      block.unpack(g, group);
      for (int half = 0; half < 2; ++half) {
        const int8_t* code = group.code + 16 * half;
        float* weights = out + g * kGroupWeights + 16 * half;
        RIDGE_VECTOR_LOOP
        for (int i = 0; i < 16; ++i) {
          const float scaled = group.scale[half] * static_cast<float>(code[i]);
          weights[i] = Format::kHasOffset ? scaled + group.offset[half] : scaled;
        }
      }
    }
  }
}

} // namespace ridge::quant
