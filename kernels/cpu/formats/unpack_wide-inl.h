// 512-bit unpackers.
//
// Bit fields of two groups of 32 are loaded to both halves of a register and shifted by a different count per half, or
// rotated upwards, then masked. Scales are computed 8 or 16 at a time.
#if defined(RIDGE_CPU_UNPACK_WIDE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_UNPACK_WIDE_INL_H
#undef RIDGE_CPU_UNPACK_WIDE_INL_H
#else
#define RIDGE_CPU_UNPACK_WIDE_INL_H
#endif

#include "kernels/cpu/formats/unpack-inl.h"
#include "quant/all_formats.h"

#include <cstddef>

#if RIDGE_WIDE
HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

HWY_INLINE __m512i both_halves(const uint8_t* p) {
  return _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
HWY_INLINE __m512i halves(int64_t low, int64_t high) {
  return _mm512_setr_epi64(low, low, low, low, high, high, high, high);
}
HWY_INLINE __m512i and_bytes(__m512i v, int mask) {
  return _mm512_and_si512(v, _mm512_set1_epi8(static_cast<char>(mask)));
}
HWY_INLINE __m512i or_masked(__m512i v, int mask, __m512i low) {
  return _mm512_ternarylogic_epi64(v, _mm512_set1_epi8(static_cast<char>(mask)), low, 0xea);
}

HWY_INLINE uint32_t load32(const void* p) {
  uint32_t v;
  std::memcpy(&v, p, 4);
  return v;
}
HWY_INLINE uint64_t load64(const void* p) {
  uint64_t v;
  std::memcpy(&v, p, 8);
  return v;
}
HWY_INLINE uint16_t load16(const void* p) {
  uint16_t v;
  std::memcpy(&v, p, 2);
  return v;
}

HWY_INLINE __m512 floats_of_bytes(uint64_t low, uint64_t high) {
  const __m128i bytes = _mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low));
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
}
HWY_INLINE __m512 broadcast_half(core::Half h) {
  return _mm512_cvtph_ps(_mm256_set1_epi16(static_cast<short>(h.bits)));
}
// 8 lanes from `first`, each twice.
HWY_INLINE __m512 twice(__m512 v, int first = 0) {
  const __m512i lane = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  return _mm512_permutexvar_ps(_mm512_add_epi32(lane, _mm512_set1_epi32(first)), v);
}
HWY_INLINE __m512 twice(__m256 v) { return twice(_mm512_castps256_ps512(v)); }

template <int kStride>
HWY_INLINE __m512 eight_halves(const void* p) {
  const auto at = [&](int i)
                      HWY_ATTR { return static_cast<short>(load16(static_cast<const uint8_t*>(p) + kStride * i)); };
  return twice(_mm256_cvtph_ps(_mm_setr_epi16(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7))));
}

// Low of a, high of a, then b.
HWY_INLINE __m512i nibbles(const uint8_t* a, const uint8_t* b) {
  const __m256i low = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a)));
  const __m256i high = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b)));
  const __m512i shift = _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4);
  return and_bytes(_mm512_srlv_epi64(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1), shift), 15);
}
HWY_INLINE __m512i look_up(__m128i entries, __m512i nibble) {
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(entries), nibble);
}

template <>
struct Unpacker<quant::Q8_0> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::Q8_0* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b[2 * j].qs));
      const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b[2 * j + 1].qs));
      const __m512i codes = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
      out.code[j].raw = _mm512_xor_si512(codes, _mm512_set1_epi8(static_cast<char>(0x80)));
    }
    out.scale[0].raw = eight_halves<sizeof(*b)>(&b->d);
  }
};

template <>
struct Unpacker<quant::Q4_0> {
  static constexpr int kBias = 8;
  static HWY_INLINE void unpack(const quant::Q4_0* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) out.code[j].raw = nibbles(b[2 * j].qs, b[2 * j + 1].qs);
    out.scale[0].raw = eight_halves<sizeof(*b)>(&b->d);
  }
};

template <>
struct Unpacker<quant::Q4_1> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q4_1* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) out.code[j].raw = nibbles(b[2 * j].qs, b[2 * j + 1].qs);
    out.scale[0].raw = eight_halves<sizeof(*b)>(&b->d);
    out.offset[0].raw = eight_halves<sizeof(*b)>(&b->m);
  }
};

template <typename Block>
HWY_INLINE __m512i five_bits(const Block& a, const Block& b) {
  const __mmask64 fifth = load32(a.qh) | static_cast<uint64_t>(load32(b.qh)) << 32;
  const __m512i low = nibbles(a.qs, b.qs);
  return _mm512_mask_add_epi8(low, fifth, low, _mm512_set1_epi8(16));
}

template <>
struct Unpacker<quant::Q5_0> {
  static constexpr int kBias = 16;
  static HWY_INLINE void unpack(const quant::Q5_0* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) out.code[j].raw = five_bits(b[2 * j], b[2 * j + 1]);
    out.scale[0].raw = eight_halves<sizeof(*b)>(&b->d);
  }
};

template <>
struct Unpacker<quant::Q5_1> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q5_1* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) out.code[j].raw = five_bits(b[2 * j], b[2 * j + 1]);
    out.scale[0].raw = eight_halves<sizeof(*b)>(&b->d);
    out.offset[0].raw = eight_halves<sizeof(*b)>(&b->m);
  }
};

HWY_INLINE __m128i iq4_levels() {
  const __m128i levels = _mm_loadu_si128(reinterpret_cast<const __m128i*>(quant::kIq4Levels));
  return _mm_xor_si128(levels, _mm_set1_epi8(static_cast<char>(0x80)));
}

template <>
struct Unpacker<quant::IQ4_NL> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::IQ4_NL* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) out.code[j].raw = look_up(iq4_levels(), nibbles(b[2 * j].qs, b[2 * j + 1].qs));
    out.scale[0].raw = eight_halves<sizeof(*b)>(&b->d);
  }
};

template <>
struct Unpacker<quant::IQ4_XS> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::IQ4_XS* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) out.code[j].raw = look_up(iq4_levels(), nibbles(b->qs + 32 * j, b->qs + 32 * j + 16));
    const __m256i low = _mm256_srlv_epi32(_mm256_set1_epi32(static_cast<int>(load32(b->scales_l))),
                                          _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    const __m256i high =
        _mm256_srlv_epi32(_mm256_set1_epi32(b->scales_h), _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
    const __m256i scale = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(15)),
                                          _mm256_slli_epi32(_mm256_and_si256(high, _mm256_set1_epi32(3)), 4));
    const __m256 signed_scale = _mm256_cvtepi32_ps(_mm256_sub_epi32(scale, _mm256_set1_epi32(32)));
    out.scale[0].raw = _mm512_mul_ps(broadcast_half(b->d), twice(signed_scale));
  }
};

HWY_INLINE __m128i e2m1_levels() { return _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0); }

template <>
struct Unpacker<quant::MXFP4> {
  static constexpr int kBias = 12;
  static HWY_INLINE void unpack(const quant::MXFP4* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) out.code[j].raw = look_up(e2m1_levels(), nibbles(b[2 * j].qs, b[2 * j + 1].qs));
    const __m256i e = _mm256_setr_epi32(b[0].e, b[1].e, b[2].e, b[3].e, b[4].e, b[5].e, b[6].e, b[7].e);
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const __mmask8 tiny = _mm256_cmplt_epi32_mask(e, _mm256_set1_epi32(2));
    out.scale[0].raw = twice(_mm256_castsi256_ps(_mm256_mask_mov_epi32(normal, tiny, subnormal)));
  }
};

template <typename Block>
HWY_INLINE void k_scales(const Block& b, Chunk& out) {
  const uint32_t a0 = load32(b.scales), a1 = load32(b.scales + 4), a2 = load32(b.scales + 8);
  const uint32_t scale_high = (a2 & 0x0f0f0f0f) | (a0 >> 2 & 0x30303030);
  const uint32_t min_high = (a2 >> 4 & 0x0f0f0f0f) | (a1 >> 2 & 0x30303030);
  const __m512 both = floats_of_bytes((a0 & 0x3f3f3f3f) | static_cast<uint64_t>(scale_high) << 32,
                                      (a1 & 0x3f3f3f3f) | static_cast<uint64_t>(min_high) << 32);
  // d for scales, −dmin for mins.
  static_assert(offsetof(Block, dmin) == offsetof(Block, d) + 2);
  const __m512 halves = _mm512_castps128_ps512(_mm_cvtph_ps(_mm_cvtsi32_si128(static_cast<int>(load32(&b.d)))));
  const __m512i eight_each = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  const __m512 sign = _mm512_castsi512_ps(_mm512_maskz_set1_epi32(0xff00, static_cast<int>(0x80000000u)));
  const __m512 factor = _mm512_xor_ps(_mm512_permutexvar_ps(eight_each, halves), sign);
  const __m512 product = _mm512_mul_ps(both, factor);
  out.scale[0].raw = twice(product);
  out.offset[0].raw = twice(product, 8);
}

template <>
struct Unpacker<quant::Q4_K> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q4_K* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j)
      out.code[j].raw = and_bytes(_mm512_srlv_epi64(both_halves(b->qs + 32 * j), halves(0, 4)), 15);
    k_scales(*b, out);
  }
};

template <>
struct Unpacker<quant::Q5_K> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q5_K* b, Chunk& out) {
    const __m512i fifth = both_halves(b->qh);
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const __m512i low = and_bytes(_mm512_srlv_epi64(both_halves(b->qs + 32 * j), halves(0, 4)), 15);
      out.code[j].raw = or_masked(_mm512_rolv_epi64(fifth, halves(68 - 2 * j, 67 - 2 * j)), 16, low);
    }
    k_scales(*b, out);
  }
};

template <>
struct Unpacker<quant::Q6_K> {
  static constexpr int kBias = 32;
  static HWY_INLINE void unpack(const quant::Q6_K* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const __m512i low = _mm512_srli_epi64(_mm512_loadu_si512(b->ql + 64 * (j / 2)), 4 * (j % 2));
      const int left = 4 - 4 * (j % 2);
      const __m512i high = _mm512_rolv_epi64(both_halves(b->qh + 32 * (j / 2)), halves(64 + left, 62 + left));
      out.code[j].raw = or_masked(high, 0x30, and_bytes(low, 15));
    }
    const __m512i scale = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b->scales)));
    out.scale[0].raw = _mm512_mul_ps(broadcast_half(b->d), _mm512_cvtepi32_ps(scale));
  }
};

HWY_INLINE __m512i two_bits(const uint8_t* qs, int j) {
  const int shift = 4 * (j % 2);
  return and_bytes(_mm512_srlv_epi64(both_halves(qs + 32 * (j / 2)), halves(shift, shift + 2)), 3);
}

template <>
struct Unpacker<quant::Q2_K> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q2_K* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) out.code[j].raw = two_bits(b->qs, j);
    const __m512i both = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b->scales)));
    const __m512 scale = _mm512_cvtepi32_ps(_mm512_and_si512(both, _mm512_set1_epi32(15)));
    const __m512 min = _mm512_cvtepi32_ps(_mm512_srli_epi32(both, 4));
    out.scale[0].raw = _mm512_mul_ps(broadcast_half(b->d), scale);
    out.offset[0].raw = _mm512_mul_ps(_mm512_sub_ps(_mm512_setzero_ps(), broadcast_half(b->dmin)), min);
  }
};

template <>
struct Unpacker<quant::Q3_K> {
  static constexpr int kBias = 4;
  static HWY_INLINE void unpack(const quant::Q3_K* b, Chunk& out) {
    const __m512i third = both_halves(b->hmask);
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j)
      out.code[j].raw = or_masked(_mm512_rolv_epi64(third, halves(66 - 2 * j, 65 - 2 * j)), 4, two_bits(b->qs, j));
    const uint64_t low = load64(b->scales);
    const uint32_t high = load32(b->scales + 8);
    const auto upper_bits = [&](int shift) HWY_ATTR {
      return static_cast<uint64_t>(high >> shift & 0x03030303) << 4 |
             static_cast<uint64_t>(high >> (shift + 2) & 0x03030303) << 36;
    };
    const __m512 scale =
        floats_of_bytes((low & 0x0f0f0f0f0f0f0f0f) | upper_bits(0), (low >> 4 & 0x0f0f0f0f0f0f0f0f) | upper_bits(4));
    out.scale[0].raw = _mm512_mul_ps(broadcast_half(b->d), _mm512_sub_ps(scale, _mm512_set1_ps(32)));
  }
};

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif // RIDGE_WIDE

#endif
