// Unpackers of arm64: groups of 32 weights fill two vectors of signed codes.
#if defined(RIDGE_CPU_UNPACK_NEON_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_UNPACK_NEON_INL_H
#undef RIDGE_CPU_UNPACK_NEON_INL_H
#else
#define RIDGE_CPU_UNPACK_NEON_INL_H
#endif

#include "kernels/cpu/formats/unpack-inl.h"
#include "quant/all_formats.h"

#if RIDGE_NEON
HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

HWY_INLINE uint8x16_t load16_bytes(const void* p) { return vld1q_u8(static_cast<const uint8_t*>(p)); }
template <typename T>
HWY_INLINE T load_as(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

HWY_INLINE uint8x16_t and_bytes(uint8x16_t v, uint8_t mask) { return vandq_u8(v, vdupq_n_u8(mask)); }
// The bits of `mask` after a shift from bit kFrom to bit kTo.
template <int kFrom, int kTo>
HWY_INLINE uint8x16_t bits_to(uint8x16_t v, uint8_t mask) {
  if constexpr (kFrom > kTo) return and_bytes(vshrq_n_u8(v, kFrom - kTo), mask);
  if constexpr (kFrom < kTo) return and_bytes(vshlq_n_u8(v, kTo - kFrom), mask);
  return and_bytes(v, mask);
}
HWY_INLINE void set_codes(uint8x16_t codes, int8_t bias, VI& out) {
  out.raw = vreinterpretq_s32_s8(vsubq_s8(vreinterpretq_s8_u8(codes), vdupq_n_s8(bias)));
}
HWY_INLINE uint8x16_t low_nibbles(uint8x16_t bytes) { return and_bytes(bytes, 15); }
HWY_INLINE uint8x16_t high_nibbles(uint8x16_t bytes) { return vshrq_n_u8(bytes, 4); }
HWY_INLINE void look_up(int8x16_t levels, const uint8_t* nibbles, VI* out) {
  const uint8x16_t bytes = load16_bytes(nibbles);
  out[0].raw = vreinterpretq_s32_s8(vqtbl1q_s8(levels, low_nibbles(bytes)));
  out[1].raw = vreinterpretq_s32_s8(vqtbl1q_s8(levels, high_nibbles(bytes)));
}

struct Eight {
  float32x4_t low, high;
};
HWY_INLINE Eight times(Eight v, float factor) { return {vmulq_n_f32(v.low, factor), vmulq_n_f32(v.high, factor)}; }
HWY_INLINE void set_twice(Eight v, VF (&out)[kScaleVectors]) {
  out[0].raw = vzip1q_f32(v.low, v.low);
  out[1].raw = vzip2q_f32(v.low, v.low);
  out[2].raw = vzip1q_f32(v.high, v.high);
  out[3].raw = vzip2q_f32(v.high, v.high);
}
HWY_INLINE Eight floats_of_bytes(uint64_t bytes) {
  const uint16x8_t wide = vmovl_u8(vcreate_u8(bytes));
  return {vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide))), vcvtq_f32_u32(vmovl_high_u16(wide))};
}
HWY_INLINE float float_of(core::Half h) {
  return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h.bits))), 0);
}
template <int kStride>
HWY_INLINE Eight eight_halves(const void* p) {
  uint16_t halves[8];
  HWY_UNROLL(8)
  for (int i = 0; i < 8; ++i) halves[i] = load_as<uint16_t>(static_cast<const uint8_t*>(p) + kStride * i);
  const float16x8_t v = vreinterpretq_f16_u16(vld1q_u16(halves));
  return {vcvt_f32_f16(vget_low_f16(v)), vcvt_high_f32_f16(v)};
}

template <>
struct Unpacker<quant::Q8_0> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q8_0* b, Chunk& out) {
    HWY_UNROLL(8)
    for (int i = 0; i < 8; ++i) {
      set_codes(load16_bytes(b[i].qs), 0, out.code[2 * i]);
      set_codes(load16_bytes(b[i].qs + 16), 0, out.code[2 * i + 1]);
    }
    set_twice(eight_halves<sizeof(*b)>(&b->d), out.scale);
  }
};

template <typename Block, int kSubtracted>
HWY_INLINE void unpack_nibbles(const Block* b, Chunk& out) {
  HWY_UNROLL(8)
  for (int i = 0; i < 8; ++i) {
    const uint8x16_t bytes = load16_bytes(b[i].qs);
    set_codes(low_nibbles(bytes), kSubtracted, out.code[2 * i]);
    set_codes(high_nibbles(bytes), kSubtracted, out.code[2 * i + 1]);
  }
  set_twice(eight_halves<sizeof(Block)>(&b->d), out.scale);
}

template <>
struct Unpacker<quant::Q4_0> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q4_0* b, Chunk& out) { unpack_nibbles<quant::Q4_0, 8>(b, out); }
};

template <>
struct Unpacker<quant::Q4_1> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q4_1* b, Chunk& out) {
    unpack_nibbles<quant::Q4_1, 0>(b, out);
    set_twice(eight_halves<sizeof(*b)>(&b->m), out.offset);
  }
};

// 16 where a bit of two bytes is set.
HWY_INLINE uint8x16_t fifth_bits(const uint8_t* two) {
  const uint8x16_t bytes = vcombine_u8(vdup_n_u8(two[0]), vdup_n_u8(two[1]));
  const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
  return and_bytes(vtstq_u8(bytes, bit), 16);
}
template <typename Block, int kSubtracted>
HWY_INLINE void unpack_fives(const Block* b, Chunk& out) {
  HWY_UNROLL(8)
  for (int i = 0; i < 8; ++i) {
    const uint8x16_t bytes = load16_bytes(b[i].qs);
    const auto* fifth = reinterpret_cast<const uint8_t*>(b[i].qh);
    set_codes(vorrq_u8(low_nibbles(bytes), fifth_bits(fifth)), kSubtracted, out.code[2 * i]);
    set_codes(vorrq_u8(high_nibbles(bytes), fifth_bits(fifth + 2)), kSubtracted, out.code[2 * i + 1]);
  }
  set_twice(eight_halves<sizeof(Block)>(&b->d), out.scale);
}

template <>
struct Unpacker<quant::Q5_0> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q5_0* b, Chunk& out) { unpack_fives<quant::Q5_0, 16>(b, out); }
};

template <>
struct Unpacker<quant::Q5_1> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q5_1* b, Chunk& out) {
    unpack_fives<quant::Q5_1, 0>(b, out);
    set_twice(eight_halves<sizeof(*b)>(&b->m), out.offset);
  }
};

template <>
struct Unpacker<quant::IQ4_NL> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::IQ4_NL* b, Chunk& out) {
    HWY_UNROLL(8)
    for (int i = 0; i < 8; ++i) look_up(vld1q_s8(quant::kIq4Levels), b[i].qs, out.code + 2 * i);
    set_twice(eight_halves<sizeof(*b)>(&b->d), out.scale);
  }
};

template <>
struct Unpacker<quant::IQ4_XS> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::IQ4_XS* b, Chunk& out) {
    HWY_UNROLL(8)
    for (int i = 0; i < 8; ++i) look_up(vld1q_s8(quant::kIq4Levels), b->qs + 16 * i, out.code + 2 * i);
    const auto four = [&](uint32_t low, uint32_t high) HWY_ATTR {
      constexpr int32_t kLow[4] = {0, -4, -8, -12}, kHigh[4] = {0, -2, -4, -6}; // to the right
      const uint32x4_t l = vandq_u32(vshlq_u32(vdupq_n_u32(low), vld1q_s32(kLow)), vdupq_n_u32(15));
      const uint32x4_t h = vandq_u32(vshlq_u32(vdupq_n_u32(high), vld1q_s32(kHigh)), vdupq_n_u32(3));
      const int32x4_t scale = vreinterpretq_s32_u32(vorrq_u32(l, vshlq_n_u32(h, 4)));
      return vcvtq_f32_s32(vsubq_s32(scale, vdupq_n_s32(32)));
    };
    const auto low = load_as<uint32_t>(b->scales_l), high = static_cast<uint32_t>(b->scales_h);
    set_twice(times({four(low, high), four(low >> 16, high >> 8)}, float_of(b->d)), out.scale);
  }
};

HWY_INLINE int8x16_t e2m1_levels() { // doubled_e2m1 of each nibble
  constexpr int8_t kLevels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  return vld1q_s8(kLevels);
}

template <>
struct Unpacker<quant::MXFP4> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::MXFP4* b, Chunk& out) {
    float scale[8];
    HWY_UNROLL(8)
    for (int i = 0; i < 8; ++i) {
      look_up(e2m1_levels(), b[i].qs, out.code + 2 * i);
      scale[i] = b[i].scale();
    }
    set_twice({vld1q_f32(scale), vld1q_f32(scale + 4)}, out.scale);
  }
};

// 8 scales, then 8 mins, 6 bits each.
template <typename Block>
HWY_INLINE void k_scales(const Block& b, Chunk& out) {
  const auto a0 = load_as<uint32_t>(b.scales), a1 = load_as<uint32_t>(b.scales + 4),
             a2 = load_as<uint32_t>(b.scales + 8);
  const uint32_t scale_high = (a2 & 0x0f0f0f0f) | (a0 >> 2 & 0x30303030);
  const uint32_t min_high = (a2 >> 4 & 0x0f0f0f0f) | (a1 >> 2 & 0x30303030);
  const Eight scale = floats_of_bytes((a0 & 0x3f3f3f3f) | static_cast<uint64_t>(scale_high) << 32);
  const Eight min = floats_of_bytes((a1 & 0x3f3f3f3f) | static_cast<uint64_t>(min_high) << 32);
  set_twice(times(scale, float_of(b.d)), out.scale);
  set_twice(times(min, -float_of(b.dmin)), out.offset);
}

template <>
struct Unpacker<quant::Q4_K> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q4_K* b, Chunk& out) {
    HWY_UNROLL(8)
    for (int i = 0; i < 8; ++i) { // low nibbles: a group; high: the next
      const uint8x16_t bytes = load16_bytes(b->qs + 16 * i);
      VI* code = out.code + 4 * (i / 2) + i % 2;
      set_codes(low_nibbles(bytes), 0, code[0]);
      set_codes(high_nibbles(bytes), 0, code[2]);
    }
    k_scales(*b, out);
  }
};

template <>
struct Unpacker<quant::Q5_K> {
  static constexpr int kBias = 0;
  template <int kJ>
  static HWY_INLINE void unpack_two(const quant::Q5_K* b, Chunk& out) {
    for (int h = 0; h < 2; ++h) {
      const uint8x16_t both = load16_bytes(b->qs + 32 * kJ + 16 * h), fifth = load16_bytes(b->qh + 16 * h);
      VI* code = out.code + 4 * kJ + h;
      set_codes(vorrq_u8(low_nibbles(both), bits_to<2 * kJ, 4>(fifth, 16)), 0, code[0]);
      set_codes(vorrq_u8(high_nibbles(both), bits_to<2 * kJ + 1, 4>(fifth, 16)), 0, code[2]);
    }
  }
  static HWY_INLINE void unpack(const quant::Q5_K* b, Chunk& out) {
    unpack_two<0>(b, out);
    unpack_two<1>(b, out);
    unpack_two<2>(b, out);
    unpack_two<3>(b, out);
    k_scales(*b, out);
  }
};

HWY_INLINE void set_scales16(int8x16_t bytes, float d, VF (&out)[kScaleVectors]) {
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
  out[0].raw = vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), d);
  out[1].raw = vmulq_n_f32(vcvtq_f32_s32(vmovl_high_s16(low)), d);
  out[2].raw = vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), d);
  out[3].raw = vmulq_n_f32(vcvtq_f32_s32(vmovl_high_s16(high)), d);
}

template <>
struct Unpacker<quant::Q6_K> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q6_K* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int i = 0; i < 4; ++i) { // half i % 2 of each of four groups
      const uint8_t* ql = b->ql + 64 * (i / 2) + 16 * (i % 2);
      const uint8x16_t low0 = load16_bytes(ql), low1 = load16_bytes(ql + 32), high = load16_bytes(b->qh + 16 * i);
      VI* code = out.code + 8 * (i / 2) + i % 2;
      set_codes(vorrq_u8(low_nibbles(low0), bits_to<0, 4>(high, 0x30)), 32, code[0]);
      set_codes(vorrq_u8(low_nibbles(low1), bits_to<2, 4>(high, 0x30)), 32, code[2]);
      set_codes(vorrq_u8(high_nibbles(low0), bits_to<4, 4>(high, 0x30)), 32, code[4]);
      set_codes(vorrq_u8(high_nibbles(low1), bits_to<6, 4>(high, 0x30)), 32, code[6]);
    }
    set_scales16(vld1q_s8(b->scales), float_of(b->d), out.scale);
  }
};

// The 2-bit fields of 64 bytes, less kSubtracted; bit g of `third`, where it is given, is bit 2 of group g.
template <int kSubtracted, bool kThird>
HWY_INLINE void two_bits(const uint8_t* qs, const uint8_t* third, Chunk& out) {
  HWY_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    const uint8x16_t four = load16_bytes(qs + 16 * i);
    uint8x16_t code[4] = {and_bytes(four, 3), bits_to<2, 0>(four, 3), bits_to<4, 0>(four, 3), vshrq_n_u8(four, 6)};
    if constexpr (kThird) {
      const uint8x16_t all = load16_bytes(third + 16 * (i % 2)), bits = i < 2 ? all : vshrq_n_u8(all, 4);
      code[0] = vorrq_u8(code[0], bits_to<0, 2>(bits, 4));
      code[1] = vorrq_u8(code[1], bits_to<1, 2>(bits, 4));
      code[2] = vorrq_u8(code[2], bits_to<2, 2>(bits, 4));
      code[3] = vorrq_u8(code[3], bits_to<3, 2>(bits, 4));
    }
    for (int g = 0; g < 4; ++g) set_codes(code[g], kSubtracted, out.code[8 * (i / 2) + 2 * g + i % 2]);
  }
}

template <>
struct Unpacker<quant::Q2_K> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q2_K* b, Chunk& out) {
    two_bits<0, false>(b->qs, nullptr, out);
    const uint8x16_t both = load16_bytes(b->scales);
    set_scales16(vreinterpretq_s8_u8(low_nibbles(both)), float_of(b->d), out.scale);
    set_scales16(vreinterpretq_s8_u8(high_nibbles(both)), -float_of(b->dmin), out.offset);
  }
};

template <>
struct Unpacker<quant::Q3_K> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q3_K* b, Chunk& out) {
    two_bits<4, true>(b->qs, b->hmask, out);
    const auto low = load_as<uint64_t>(b->scales);
    const auto high = load_as<uint32_t>(b->scales + 8);
    const auto upper_bits = [&](int shift) HWY_ATTR {
      return static_cast<uint64_t>(high >> shift & 0x03030303) << 4 |
             static_cast<uint64_t>(high >> (shift + 2) & 0x03030303) << 36;
    };
    const uint64_t first = (low & 0x0f0f0f0f0f0f0f0f) | upper_bits(0),
                   second = (low >> 4 & 0x0f0f0f0f0f0f0f0f) | upper_bits(4);
    const int8x16_t scales = vcombine_s8(vcreate_s8(first), vcreate_s8(second));
    set_scales16(vsubq_s8(scales, vdupq_n_s8(32)), float_of(b->d), out.scale);
  }
};

template <>
struct Unpacker<quant::TQ2_0> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::TQ2_0* b, Chunk& out) {
    two_bits<1, false>(b->qs, nullptr, out);
    for (VF& scale : out.scale) scale.raw = vdupq_n_f32(float_of(b->d));
  }
};

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif // RIDGE_NEON

#endif
