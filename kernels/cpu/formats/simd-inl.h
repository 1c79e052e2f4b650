// Vector helpers. Included once per instruction set; anonymous namespaces keep the linker from merging these variants.
#if defined(RIDGE_CPU_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_SIMD_INL_H
#undef RIDGE_CPU_SIMD_INL_H
#else
#define RIDGE_CPU_SIMD_INL_H
#endif

#include "kernels/cpu/formats/byte_dots.h"
#include "kernels/cpu/formats/kernels.h"

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstring>

// RIDGE_WIDE: 512-bit unpackers exist. RIDGE_NEON: arm64.
#undef RIDGE_WIDE
#undef RIDGE_NEON
#if HWY_TARGET == HWY_NEON
#define RIDGE_NEON 1
#else
#define RIDGE_NEON 0
#endif
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define RIDGE_WIDE 1
#else
#define RIDGE_WIDE 0
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using IntTag = hn::Rebind<int32_t, FloatTag>;
using VF = hn::Vec<FloatTag>;
using VI = hn::Vec<IntTag>;
inline constexpr int64_t kLanes = hn::MaxLanes(FloatTag());
inline constexpr FloatTag kF;
inline constexpr IntTag kI;
inline constexpr bool kManyRegisters = RIDGE_WIDE || RIDGE_NEON; // 32, else 16

HWY_INLINE VI broadcast4(const void* p) {
  int32_t bits;
  std::memcpy(&bits, p, 4);
  return hn::Set(kI, bits);
}

// Four bytes per lane.
HWY_INLINE VI load_int(const void* p) {
#if HWY_TARGET == HWY_SCALAR
  return broadcast4(p);
#else
  return hn::BitCast(kI, hn::LoadU(hn::Repartition<uint8_t, IntTag>(), static_cast<const uint8_t*>(p)));
#endif
}

// sum + four products per 32-bit lane, unsigned × signed; exact.
HWY_INLINE VI dot4(VI sum, VI u, VI s) {
#if HWY_TARGET == HWY_AVX3_DL
  // Highway's AVX3_DL does not enable AVX512_VNNI in the compiler.
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(u.raw), "v"(s.raw));
  return sum;
#elif HWY_TARGET == HWY_AVX3
  const __m512i even = _mm512_set1_epi16(0xff);
  const __m512i products = _mm512_add_epi32(
      _mm512_madd_epi16(_mm512_and_si512(u.raw, even), _mm512_srai_epi16(_mm512_slli_epi16(s.raw, 8), 8)),
      _mm512_madd_epi16(_mm512_srli_epi16(u.raw, 8), _mm512_srai_epi16(s.raw, 8)));
  return VI{_mm512_add_epi32(sum.raw, products)};
#elif HWY_TARGET == HWY_AVX2
  const __m256i even = _mm256_set1_epi16(0xff);
  const __m256i products = _mm256_add_epi32(
      _mm256_madd_epi16(_mm256_and_si256(u.raw, even), _mm256_srai_epi16(_mm256_slli_epi16(s.raw, 8), 8)),
      _mm256_madd_epi16(_mm256_srli_epi16(u.raw, 8), _mm256_srai_epi16(s.raw, 8)));
  return VI{_mm256_add_epi32(sum.raw, products)};
#else
  const VI byte = hn::Set(kI, 0xff);
  sum = hn::Add(sum, hn::Mul(hn::And(u, byte), hn::ShiftRight<24>(hn::ShiftLeft<24>(s))));
  sum = hn::Add(sum, hn::Mul(hn::And(hn::ShiftRight<8>(u), byte), hn::ShiftRight<24>(hn::ShiftLeft<16>(s))));
  sum = hn::Add(sum, hn::Mul(hn::And(hn::ShiftRight<16>(u), byte), hn::ShiftRight<24>(hn::ShiftLeft<8>(s))));
  return hn::Add(sum, hn::Mul(hn::And(hn::ShiftRight<24>(u), byte), hn::ShiftRight<24>(s)));
#endif
}

// For u < 128: two products fit into 16 bits.
HWY_INLINE VI dot4_small(VI sum, VI u, VI s) {
#if HWY_TARGET == HWY_AVX3
  const __m512i pairs = _mm512_maddubs_epi16(u.raw, s.raw);
  return VI{_mm512_add_epi32(sum.raw, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))};
#elif HWY_TARGET == HWY_AVX2
  const __m256i pairs = _mm256_maddubs_epi16(u.raw, s.raw);
  return VI{_mm256_add_epi32(sum.raw, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))};
#else
  return dot4(sum, u, s);
#endif
}

// 8 KB ahead: the hardware prefetcher stops at page ends (Q8_0 on Zen 5: 25 % faster).
template <int64_t kBytes>
HWY_INLINE void prefetch(const void* p) {
  constexpr int64_t kAhead = 8192, kLine = 64;
  for (int64_t i = 0; i < kBytes; i += kLine) hwy::Prefetch(static_cast<const std::byte*>(p) + kAhead + i);
}

HWY_INLINE float sum_of(VF v) { return hn::GetLane(hn::SumOfLanes(kF, v)); }
HWY_INLINE float max_of(VF v) { return hn::GetLane(hn::MaxOfLanes(kF, v)); }

HWY_INLINE VF load_float(const float* p) { return hn::LoadU(kF, p); }
HWY_INLINE VF load_half(const uint16_t* p) {
  const hn::Rebind<hwy::float16_t, FloatTag> half;
  return hn::PromoteTo(kF, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(p)));
}
HWY_INLINE VF load_bfloat(const uint16_t* p) {
  const hn::Rebind<uint16_t, FloatTag> raw;
  return hn::BitCast(kF, hn::ShiftLeft<16>(hn::PromoteTo(kI, hn::LoadU(raw, p))));
}
// levels[code] * scale
HWY_INLINE VF look_up(const float (&levels)[16], VI code, VF scale) {
  if constexpr (kLanes == 16)
    return hn::TableLookupLanes(hn::Mul(scale, hn::LoadU(kF, levels)), hn::IndicesFromVec(kF, code));
#if RIDGE_NEON
  uint8x16x4_t table;
  for (int i = 0; i < 4; ++i) table.val[i] = vreinterpretq_u8_f32(hn::Mul(scale, hn::LoadU(kF, levels + 4 * i)).raw);
  const VI bytes_of = hn::Add(hn::Mul(code, hn::Set(kI, 0x04040404)), hn::Set(kI, 0x03020100));
  return VF(vreinterpretq_f32_u8(vqtbl4q_u8(table, vreinterpretq_u8_s32(bytes_of.raw))));
#endif
  if constexpr (kLanes == 8) {
    const auto place = hn::IndicesFromVec(kF, hn::And(code, hn::Set(kI, 7)));
    return hn::IfThenElse(hn::RebindMask(kF, hn::Gt(code, hn::Set(kI, 7))),
                          hn::TableLookupLanes(hn::Mul(scale, hn::LoadU(kF, levels + 8)), place),
                          hn::TableLookupLanes(hn::Mul(scale, hn::LoadU(kF, levels)), place));
  }
  return hn::Mul(scale, hn::GatherIndex(kF, levels, code));
}
HWY_INLINE VF load_levels(const uint8_t* p, bool upper, const float (&levels)[16], float d) {
  const hn::Rebind<uint8_t, FloatTag> byte;
  const VI bytes = hn::PromoteTo(kI, hn::LoadU(byte, p));
  return look_up(levels, upper ? hn::ShiftRight<4>(bytes) : hn::And(bytes, hn::Set(kI, 15)), hn::Set(kF, d));
}
HWY_INLINE VF load_e4m3(const uint8_t* p, float d) {
  const hn::Rebind<uint8_t, FloatTag> byte;
  const hn::Rebind<uint16_t, FloatTag> word;
  const hn::Rebind<hwy::float16_t, FloatTag> half;
  const auto bits = hn::PromoteTo(word, hn::LoadU(byte, p));
  const auto shifted = hn::Or(hn::ShiftLeft<8>(hn::And(bits, hn::Set(word, 0x80))),
                              hn::ShiftLeft<7>(hn::And(bits, hn::Set(word, 0x7f))));
  return hn::Mul(hn::PromoteTo(kF, hn::BitCast(half, shifted)), hn::Set(kF, d * 256.0f));
}

HWY_INLINE void transpose16(const uint32_t* in, int64_t in_stride, uint32_t* out, int64_t out_stride) {
#if RIDGE_WIDE
  __m512i a[16], b[16];
  HWY_UNROLL(16)
  for (int i = 0; i < 16; ++i) a[i] = _mm512_loadu_si512(in + i * in_stride);
  HWY_UNROLL(8)
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
  }
  HWY_UNROLL(4)
  for (int i = 0; i < 16; i += 4) { // 2×2 of pairs: a[i + c] has column c of each 128-bit lane, rows i to i+3
    a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
    a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
    a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
    a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
  }
  HWY_UNROLL(4)
  for (int c = 0; c < 4; ++c) {
    const __m512i low0 = _mm512_shuffle_i32x4(a[c], a[c + 4], 0x88),
                  low1 = _mm512_shuffle_i32x4(a[c + 8], a[c + 12], 0x88);
    const __m512i high0 = _mm512_shuffle_i32x4(a[c], a[c + 4], 0xdd),
                  high1 = _mm512_shuffle_i32x4(a[c + 8], a[c + 12], 0xdd);
    _mm512_storeu_si512(out + c * out_stride, _mm512_shuffle_i32x4(low0, low1, 0x88));
    _mm512_storeu_si512(out + (c + 8) * out_stride, _mm512_shuffle_i32x4(low0, low1, 0xdd));
    _mm512_storeu_si512(out + (c + 4) * out_stride, _mm512_shuffle_i32x4(high0, high1, 0x88));
    _mm512_storeu_si512(out + (c + 12) * out_stride, _mm512_shuffle_i32x4(high0, high1, 0xdd));
  }
#elif RIDGE_NEON
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 16; j += 4) {
      uint64x2_t a[4];
      const auto row = [&](int r) HWY_ATTR { return vld1q_u32(in + (i + r) * in_stride + j); };
      a[0] = vreinterpretq_u64_u32(vzip1q_u32(row(0), row(1)));
      a[1] = vreinterpretq_u64_u32(vzip2q_u32(row(0), row(1)));
      a[2] = vreinterpretq_u64_u32(vzip1q_u32(row(2), row(3)));
      a[3] = vreinterpretq_u64_u32(vzip2q_u32(row(2), row(3)));
      for (int c = 0; c < 4; ++c) {
        const uint64x2_t low = a[c / 2], high = a[c / 2 + 2];
        vst1q_u32(out + (j + c) * out_stride + i,
                  vreinterpretq_u32_u64(c % 2 == 0 ? vzip1q_u64(low, high) : vzip2q_u64(low, high)));
      }
    }
#else
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) out[j * out_stride + i] = in[i * in_stride + j];
#endif
}

} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
