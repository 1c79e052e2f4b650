// Codes of KV cache types (core/kv_type.h), bit-identical on host and device.
#pragma once

#include "core/half.h"
#include "core/host_device.h"
#include "core/kv_type.h"
#include "quant/formats/iq4_nl.h"

#include <cmath>

namespace ridge::quant {

// Made from the extremes of a block. NaN and infinity give an infinite scale, so that a broken model is noticed.
struct CacheCode {
  core::KvType type;
  uint16_t scale, minimum = 0; // binary16
  float inverse, least = 0;

  RIDGE_HD CacheCode(core::KvType type, float smallest, float largest) : type(type) {
    using enum core::KvType;
    const float farthest = largest >= -smallest ? largest : smallest, range = largest - smallest;
    float span = farthest, codes = kIq4Levels[0]; // the extremes get the outermost codes
    if (type == q8_0) span = farthest < 0 ? -farthest : farthest, codes = 127;
    if (type == q5_1 || type == q4_1) {
      span = range, codes = type == q5_1 ? 31 : 15;
      minimum = core::f16_from_f32(smallest);
      least = core::f32_from_f16(minimum);
    }
    if (type == q5_0) codes = -16;
    if (type == q4_0) codes = -8;
    const bool is_finite = range < INFINITY; // false for NaN
    scale = core::f16_from_f32(is_finite ? span / codes : INFINITY);
    inverse = is_finite && (span > 1e-30f || span < -1e-30f) ? codes / span : 0;
  }
  // q8_0: -127 to 127; others: 0 to 15 or 31.
  RIDGE_HD int operator()(float x) const {
    using enum core::KvType;
    const float steps = inverse != 0 ? (x - least) * inverse : 0;
    if (type == iq4_nl) {
      int index = 0;
      for (int i = 0; i < 15; ++i) index += 2 * steps > static_cast<float>(kIq4Levels[i] + kIq4Levels[i + 1]);
      return index;
    }
    if (type == q8_0) return static_cast<int>(rintf(steps));
    const int zero = type == q5_0 ? 16 : type == q4_0 ? 8 : 0, most = type == q5_0 || type == q5_1 ? 31 : 15;
    const int code = static_cast<int>(rintf(steps)) + zero;
    return code < 0 ? 0 : code > most ? most : code;
  }
};

} // namespace ridge::quant
