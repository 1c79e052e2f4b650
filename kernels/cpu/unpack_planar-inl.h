// Unpackers for 512-bit registers of the formats that live in memory only: what AWQ, GPTQ, bitsandbytes and FP8
// checkpoints run as.
#if defined(RIDGE_CPU_UNPACK_PLANAR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_UNPACK_PLANAR_INL_H
#undef RIDGE_CPU_UNPACK_PLANAR_INL_H
#else
#define RIDGE_CPU_UNPACK_PLANAR_INL_H
#endif

#include "kernels/cpu/unpack_wide-inl.h"

#include <algorithm>

#if RIDGE_WIDE
HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

HWY_INLINE __m512i two_halves(__m256i low, __m256i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
HWY_INLINE float load_f32(const void* p) {
  float v;
  std::memcpy(&v, p, 4);
  return v;
}
// value(0) … value(7), each twice.
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
    out.scale[0].raw = eight_floats([b](int i) HWY_ATTR { return load_f32(b[i].d); });
    out.offset[0].raw = eight_floats([b](int i) HWY_ATTR { return load_f32(b[i].m); });
  }
};

// 32 codes, each looked up in two tables: the parts of 32 weights one after the other.
HWY_INLINE void unpack_levels(const quant::LevelBlock* b, const quant::LevelBlock* next, const int8_t (&parts)[2][16],
                              Chunk& out) {
  const auto table = [&](int part) HWY_ATTR {
    const __m128i levels = _mm_loadu_si128(reinterpret_cast<const __m128i*>(parts[part]));
    return _mm256_broadcastsi128_si256(_mm_xor_si128(levels, _mm_set1_epi8(static_cast<char>(0x80))));
  };
  const __m512i tables = two_halves(table(0), table(1));
  HWY_UNROLL(4)
  for (int j = 0; j < 4; ++j) {
    const uint8_t* codes = (j < 2 ? b : next)->qs + 16 * (j % 2);
    out.code[j].raw = _mm512_shuffle_epi8(tables, nibbles(codes, codes));
  }
  out.scale[0].raw = eight_floats([b, next](int i) HWY_ATTR {
    const float high = load_f32((i < 4 ? b : next)->d) * (1 / 127.0f);
    return i % 2 ? high * (1 / 254.0f) : high;
  });
}

template <>
struct Unpacker<quant::NF4_PARTS> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::NF4_PARTS* b, Chunk& out) {
    unpack_levels(b, b + 1, quant::kNf4Parts, out);
  }
};

template <>
struct Unpacker<quant::FP4_PARTS> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::FP4_PARTS* b, Chunk& out) {
    unpack_levels(b, b + 1, quant::kFp4Parts, out);
  }
};

// FP8_E4M3::unpack, 32 weights at a time in 16-bit lanes.
template <>
struct Unpacker<quant::FP8_E4M3> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::FP8_E4M3* b, Chunk& out) {
    alignas(64) float scales[16];
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const quant::FP8_E4M3& block = b[j / 2];
      const __m512i bits =
          _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(block.qs + 32 * (j % 2))));
      const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi16(0x7f));
      __m512i largest = _mm512_max_epu16(magnitude, _mm512_set1_epi16(8)); // of 16 weights: half a register
      largest = _mm512_max_epu16(largest, _mm512_shuffle_i64x2(largest, largest, 0xb1));
      largest = _mm512_max_epu16(largest, _mm512_shuffle_epi32(largest, static_cast<_MM_PERM_ENUM>(0x4e)));
      largest = _mm512_max_epu16(largest, _mm512_shuffle_epi32(largest, static_cast<_MM_PERM_ENUM>(0xb1)));
      largest = _mm512_max_epu16(largest, _mm512_rol_epi32(largest, 16));
      const __m512i top = _mm512_srli_epi16(largest, 3), one = _mm512_set1_epi16(1);
      const __m512i field = _mm512_srli_epi16(magnitude, 3);
      const __mmask32 normal = _mm512_cmpgt_epi16_mask(field, _mm512_setzero_si512());
      const __m512i fraction = _mm512_and_si512(magnitude, _mm512_set1_epi16(7));
      const __m512i significand = _mm512_mask_add_epi16(fraction, normal, fraction, _mm512_set1_epi16(8));
      const __m512i down = _mm512_sub_epi16(top, _mm512_max_epu16(field, one));
      const __m512i moved = _mm512_srlv_epi16(_mm512_slli_epi16(significand, 11), down);
      const __m512i number = _mm512_srli_epi16(_mm512_add_epi16(moved, one), 1);
      const __m512i high = _mm512_srli_epi16(_mm512_add_epi16(number, _mm512_set1_epi16(64)), 7);
      const __m512i low = _mm512_sub_epi16(number, _mm512_slli_epi16(high, 7));
      const __mmask32 negative = _mm512_test_epi16_mask(bits, _mm512_set1_epi16(0x80));
      const auto code = [&](__m512i v) HWY_ATTR {
        return _mm512_cvtepi16_epi8(_mm512_mask_sub_epi16(v, negative, _mm512_setzero_si512(), v));
      };
      out.code[j].raw = _mm512_xor_si512(two_halves(code(high), code(low)), _mm512_set1_epi8(static_cast<char>(0x80)));
      const float scale = load_f32(block.d);
      const int tops[2] = {_mm_cvtsi128_si32(_mm512_castsi512_si128(top)) & 15,
                           _mm_cvtsi128_si32(_mm512_extracti32x4_epi32(top, 2)) & 15};
      for (int i = 0; i < 4; ++i) {
        const int exponent = tops[i % 2] - (i < 2 ? 13 : 20) + 127;
        scales[4 * j + i] = scale * core::f32_from_bits(static_cast<uint32_t>(exponent) << 23);
      }
    }
    out.scale[0].raw = _mm512_load_ps(scales);
  }
};

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif // RIDGE_WIDE

#endif
