// The common decoded form of packed formats: small codes times a scale, plus maybe an offset, per 16 or 32 weights.
//
// A format only unpacks groups of 32; rows, dot products and matrix tiles are built from these for all formats.
//
//   packed format:  struct Q4_K { kWeights, kScaleWeights, kHasOffset; fields…; void unpack(int group, Group&) const;
//                                 void pack(const Parts&); }
//   float format:   struct F16  { kWeights = 1; field;                 float value(int) const;
//                                 static F16 from(float); }
//
// Without integer codes: a float format with several weights per block.
#pragma once

#include "core/half.h"
#include "core/host_device.h"

#include <cstdint>

namespace ridge::quant {

using core::Half;
using core::SplitFloat;

// w[i] = scale[i / 16] * code[i] + offset[i / 16], each operation rounded to f32. With one scale per 32 both entries
// are equal; without offsets they are 0. |code| <= 127 suits integer dot instructions; only Q8_0 and AFFINE8 can store
// -128, which encoders do not write.
struct Group {
  int8_t code[32];
  float scale[2];
  float offset[2];
};

inline constexpr int kGroupWeights = 32;

// An unpacked block; the format can hold every number.
struct Parts {
  int8_t code[256];
  // Factors of d (min: of m), or the scale in formats without d (MXFP4, NVFP4); per kScaleWeights weights.
  float scale[16], min[16];
  float d, m; // m: of the mins, or the offset
};

template <typename Format>
concept PackedFormat = requires(const Format& block, Group& group) {
  block.unpack(0, group);
  Format::kWeights;
  Format::kScaleWeights; // 16 or 32
  Format::kHasOffset;
};

template <typename Format>
concept FloatFormat = requires(const Format& block) {
  block.value(0);
};

template <typename Format>
concept ScalarFormat = FloatFormat<Format> && Format::kWeights == 1;

// Reference decoder. `out`: Format::kWeights floats.
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
