// Products of signed bytes on arm64, exact. The compiler assumes plain NEON, so newer instructions are assembly, for
// which the assembler must be told to expect more; callers ask byte_dots() first.
#if defined(RIDGE_CPU_DOTS_NEON_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_DOTS_NEON_INL_H
#undef RIDGE_CPU_DOTS_NEON_INL_H
#else
#define RIDGE_CPU_DOTS_NEON_INL_H
#endif

#include "kernels/cpu/formats/simd-inl.h"

#if RIDGE_NEON
#undef RIDGE_NEWER_ARM
#ifdef __ARM_FEATURE_MATMUL_INT8
#define RIDGE_NEWER_ARM
#else
#define RIDGE_NEWER_ARM ".arch armv8.6-a+crypto+sve2\n\t"
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

HWY_INLINE int8x16_t load_bytes(const void* p) { return vld1q_s8(static_cast<const int8_t*>(p)); }

// Lane i: products of bytes 4 i to 4 i + 3.
HWY_INLINE int32x4_t sdot(int32x4_t sum, int8x16_t a, int8x16_t b) {
  asm(RIDGE_NEWER_ARM "sdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b));
  return sum;
}
// With bytes 4 kLane to 4 kLane + 3 of b.
template <int kLane>
HWY_INLINE int32x4_t sdot_lane(int32x4_t sum, int8x16_t a, int8x16_t b) {
  asm(RIDGE_NEWER_ARM "sdot %0.4s, %1.16b, %2.4b[%3]" : "+w"(sum) : "w"(a), "w"(b), "i"(kLane));
  return sum;
}
// Lane 2 i + j: products of eight bytes, half i of a and half j of b.
HWY_INLINE int32x4_t smmla(int32x4_t sum, int8x16_t a, int8x16_t b) {
  asm(RIDGE_NEWER_ARM "smmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b));
  return sum;
}

// sum + 16 products, in any lanes. kSmall: a or b holds no −128, so that two products fit into 16 bits.
template <ByteDots kDots, bool kSmall>
HWY_INLINE VI dot16(VI sum, VI a, VI b) {
  const int8x16_t x = vreinterpretq_s8_s32(a.raw), y = vreinterpretq_s8_s32(b.raw);
  const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(y));
  if constexpr (kDots != ByteDots::basic) return VI(sdot(sum.raw, x, y));
  if constexpr (kSmall) return VI(vpadalq_s16(sum.raw, vmlal_high_s8(low, x, y)));
  return VI(vpadalq_s16(vpadalq_s16(sum.raw, low), vmull_high_s8(x, y)));
}

// sum + products of four weights of each of four rows with bytes 4 kLane to 4 kLane + 3 of x.
template <ByteDots kDots, bool kSmall, int kLane>
HWY_INLINE int32x4_t dot_rows4(int32x4_t sum, int8x16_t w, int8x16_t x) {
  if constexpr (kDots != ByteDots::basic) return sdot_lane<kLane>(sum, w, x);
  const int8x16_t four = vreinterpretq_s8_s32(vdupq_laneq_s32(vreinterpretq_s32_s8(x), kLane));
  const int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(four)), high = vmull_high_s8(w, four);
  if constexpr (kSmall) return vpadalq_s16(sum, vpaddq_s16(low, high));
  return vaddq_s32(sum, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
}

// dots[v][t] += weights of rows 4 v to 4 v + 3 of a CodePanel times kGroup bytes of token t.
template <ByteDots kDots, bool kSmall, int kGroup, int kTokens>
HWY_INLINE void add_group(const uint8_t* weights, const int8_t* const (&x)[kTokens], VI (&dots)[2][kTokens]) {
  if constexpr (kDots == ByteDots::i8mm) {
    constexpr int kPairs = (kTokens + 1) / 2; // a last token alone is paired with itself
    int32x4_t sums[4][kPairs];
    for (int v = 0; v < 4; ++v)
      for (int p = 0; p < kPairs; ++p) sums[v][p] = vdupq_n_s32(0);
    HWY_UNROLL(4)
    for (int k = 0; k < kGroup / 8; ++k) {
      int8x16_t tokens[kPairs];
      HWY_UNROLL(4)
      for (int p = 0; p < kPairs; ++p)
        tokens[p] = vcombine_s8(vld1_s8(x[2 * p] + 8 * k), vld1_s8(x[2 * p + 1 < kTokens ? 2 * p + 1 : 2 * p] + 8 * k));
      HWY_UNROLL(4)
      for (int v = 0; v < 4; ++v) {
        const int8x16_t w = load_bytes(weights + 8 * kPanelRows * k + 16 * v);
        HWY_UNROLL(4)
        for (int p = 0; p < kPairs; ++p) sums[v][p] = smmla(sums[v][p], w, tokens[p]);
      }
    }
    HWY_UNROLL(8)
    for (int t = 0; t < kTokens; ++t)
      for (int v = 0; v < 2; ++v) {
        const int32x4_t a = sums[2 * v][t / 2], b = sums[2 * v + 1][t / 2];
        dots[v][t].raw = vaddq_s32(dots[v][t].raw, t % 2 == 0 ? vuzp1q_s32(a, b) : vuzp2q_s32(a, b));
      }
  } else {
    HWY_UNROLL(2)
    for (int k = 0; k < kGroup / 16; ++k) {
      int8x16_t tokens[kTokens];
      HWY_UNROLL(8)
      for (int t = 0; t < kTokens; ++t) tokens[t] = load_bytes(x[t] + 16 * k);
      const auto add_four = [&]<int kLane>() HWY_ATTR {
        for (int v = 0; v < 2; ++v) {
          const int8x16_t w = load_bytes(weights + 4 * kPanelRows * (4 * k + kLane) + 16 * v);
          HWY_UNROLL(8)
          for (int t = 0; t < kTokens; ++t)
            dots[v][t].raw = dot_rows4<kDots, kSmall, kLane>(dots[v][t].raw, w, tokens[t]);
        }
      };
      add_four.template operator()<0>();
      add_four.template operator()<1>();
      add_four.template operator()<2>();
      add_four.template operator()<3>();
    }
  }
}

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif // RIDGE_NEON

#endif
