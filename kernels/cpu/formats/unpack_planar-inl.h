// 512-bit unpackers for AWQ and GPTQ weights.
#if defined(RIDGE_CPU_UNPACK_PLANAR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_UNPACK_PLANAR_INL_H
#undef RIDGE_CPU_UNPACK_PLANAR_INL_H
#else
#define RIDGE_CPU_UNPACK_PLANAR_INL_H
#endif

#include "kernels/cpu/formats/unpack_wide-inl.h"

#include <algorithm>

#if RIDGE_WIDE
HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

HWY_INLINE __m512i two_halves(__m256i low, __m256i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
template <typename Value>
HWY_INLINE __m512 eight_floats(const Value& value) {
  return twice(_mm256_setr_ps(value(0), value(1), value(2), value(3), value(4), value(5), value(6), value(7)));
}

template <>
struct Unpacker<quant::AFFINE4> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::AFFINE4* b, Chunk& out) {
    const auto shift = [](int zero) HWY_ATTR {
      return _mm256_set1_epi8(static_cast<char>(kBias - std::clamp(zero, -111, 112)));
    };
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j)
      out.code[j].raw = _mm512_add_epi8(nibbles(b[j].qs, b[j].qs + 16), two_halves(shift(b[j].z[0]), shift(b[j].z[1])));
    const auto d = [b](int i) HWY_ATTR { return static_cast<short>(b[i / 2].d[i % 2].bits); };
    out.scale[0].raw = twice(_mm256_cvtph_ps(_mm_setr_epi16(d(0), d(1), d(2), d(3), d(4), d(5), d(6), d(7))));
  }
};

template <>
struct Unpacker<quant::AFFINE8> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::AFFINE8* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const __m512i codes = two_halves(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b[2 * j].qs)),
                                       _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b[2 * j + 1].qs)));
      out.code[j].raw = _mm512_xor_si512(codes, _mm512_set1_epi8(static_cast<char>(0x80)));
    }
    out.scale[0].raw = eight_floats([b](int i) HWY_ATTR { return float{b[i].d}; });
    out.offset[0].raw = eight_floats([b](int i) HWY_ATTR { return float{b[i].m}; });
  }
};

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif // RIDGE_WIDE

#endif
