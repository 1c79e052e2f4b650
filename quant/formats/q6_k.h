// Q6_K: 256 weights in 210 bytes. Groups of 16.
//
//   +0     ql      128 bytes: the low four bits. Each half of 64 bytes serves 128 weights: low nibbles are the
//                  first 64 of them, high nibbles the last 64
//   +128   qh      64 bytes: the upper two bits. Byte l of each half of 32 holds weights l, l+32, l+64, l+96
//   +192   scales  16 signed bytes
//   +208   d       binary16
//
// w = (d * scale) * (q - 32)
#pragma once

#include "quant/formats/group.h"

namespace ridge::quant {

struct Q6_K {
  static constexpr int kWeights = 256;
  static constexpr int kScaleWeights = 16;
  static constexpr bool kHasOffset = false;

  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  Half d;

  RIDGE_HD void unpack(int g, Group& out) const {
    const int half = g / 4, part = g % 4; // of 128 weights; of 32
    const uint8_t* low = ql + 64 * half + 32 * (part & 1);
    const uint8_t* high = qh + 32 * half;
    const int low_shift = 4 * (part / 2), high_shift = 2 * part;
    for (int i = 0; i < 32; ++i) {
      const int q = ((low[i] >> low_shift) & 15) | (((high[i] >> high_shift) & 3) << 4);
      out.code[i] = static_cast<int8_t>(q - 32);
    }
    for (int s = 0; s < 2; ++s) {
      out.scale[s] = d * static_cast<float>(scales[2 * g + s]);
      out.offset[s] = 0.0f;
    }
  }

  RIDGE_HD void pack(const Parts& in) {
    d.bits = core::f16_from_f32(in.d);
    for (int s = 0; s < 16; ++s) scales[s] = static_cast<int8_t>(in.scale[s]);
    for (int i = 0; i < 128; ++i) {
      const int8_t* code = in.code + 128 * (i / 64) + i % 64;
      ql[i] = static_cast<uint8_t>((code[0] & 15) | (code[64] & 15) << 4); // same low bits as code + 32
    }
    for (int i = 0; i < 64; ++i) {
      const int8_t* code = in.code + 128 * (i / 32) + i % 32;
      int bits = 0;
      for (int part = 0; part < 4; ++part) bits |= ((code[32 * part] + 32) >> 4) << (2 * part);
      qh[i] = static_cast<uint8_t>(bits);
    }
  }
};
static_assert(sizeof(Q6_K) == 210);

} // namespace ridge::quant
