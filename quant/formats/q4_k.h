// Q4_K: 256 weights in 144 bytes. Eight groups of 32.
//
//   +0     d       binary16, for the group scales
//   +2     dmin    binary16, for the group mins
//   +4     scales  8 × (6-bit scale, 6-bit min) in 12 bytes: groups 0-3 in the low six bits of bytes 0-3 (scales)
//                  and 4-7 (mins); groups 4-7 have their low four bits in bytes 8-11 (low nibble scale, high
//                  nibble min) and their upper two in the top bits of bytes 0-3 and 4-7
//   +16    qs      4 × 32 bytes: low nibbles: group 2j, high: 2j+1
//
// w = (d * scale) * q - (dmin * min)
#pragma once

#include "quant/formats/group.h"

namespace ridge::quant {

// Shared by Q4_K and Q5_K.
RIDGE_HD void k_scale_min(const uint8_t* scales, int g, int& scale, int& min) {
  if (g < 4) {
    scale = scales[g] & 63;
    min = scales[g + 4] & 63;
  } else {
    scale = (scales[g + 4] & 15) | ((scales[g - 4] >> 6) << 4);
    min = (scales[g + 4] >> 4) | ((scales[g] >> 6) << 4);
  }
}

RIDGE_HD void pack_k_scales(const Parts& in, uint8_t* scales) {
  for (int g = 0; g < 4; ++g) {
    const int scale = static_cast<int>(in.scale[g]), min = static_cast<int>(in.min[g]);
    const int scale4 = static_cast<int>(in.scale[g + 4]), min4 = static_cast<int>(in.min[g + 4]);
    scales[g] = static_cast<uint8_t>(scale | (scale4 >> 4) << 6);
    scales[g + 4] = static_cast<uint8_t>(min | (min4 >> 4) << 6);
    scales[g + 8] = static_cast<uint8_t>((scale4 & 15) | (min4 & 15) << 4);
  }
}

// Shared with Q5_K, except the fifth bits.
template <class Block>
RIDGE_HD void unpack_k_scale(const Block& block, int g, Group& out) {
  int scale, min;
  k_scale_min(block.scales, g, scale, min);
  out.scale[0] = out.scale[1] = block.d * static_cast<float>(scale);
  out.offset[0] = out.offset[1] = -(block.dmin * static_cast<float>(min));
}

template <class Block>
RIDGE_HD void pack_k_nibbles(const Parts& in, Block& block) {
  block.d.bits = core::f16_from_f32(in.d);
  block.dmin.bits = core::f16_from_f32(in.m);
  pack_k_scales(in, block.scales);
  for (int i = 0; i < 128; ++i) {
    const int8_t* code = in.code + 64 * (i / 32) + i % 32;
    block.qs[i] = static_cast<uint8_t>((code[0] & 15) | (code[32] & 15) << 4);
  }
}

struct Q4_K {
  static constexpr int kWeights = 256;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = true;

  Half d;
  Half dmin;
  uint8_t scales[12];
  uint8_t qs[128];

  RIDGE_HD void unpack(int g, Group& out) const {
    const uint8_t* q = qs + 32 * (g / 2);
    const int shift = 4 * (g & 1);
    for (int i = 0; i < 32; ++i) out.code[i] = static_cast<int8_t>((q[i] >> shift) & 15);
    unpack_k_scale(*this, g, out);
  }

  RIDGE_HD void pack(const Parts& in) { pack_k_nibbles(in, *this); }
};
static_assert(sizeof(Q4_K) == 144);

} // namespace ridge::quant
