// 512-bit unpackers of codebook and very small formats. Signs are mask registers.
#if defined(RIDGE_CPU_UNPACK_CODEBOOK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_UNPACK_CODEBOOK_INL_H
#undef RIDGE_CPU_UNPACK_CODEBOOK_INL_H
#else
#define RIDGE_CPU_UNPACK_CODEBOOK_INL_H
#endif

#include "kernels/cpu/formats/unpack_wide-inl.h"

// With byte permutations some formats are in unpack_points-inl.h.
#undef RIDGE_BYTE_PERMUTATIONS
#if HWY_TARGET == HWY_AVX3_DL
#define RIDGE_BYTE_PERMUTATIONS 1
#else
#define RIDGE_BYTE_PERMUTATIONS 0
#endif

#if RIDGE_WIDE
HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

template <typename Book, typename Index>
HWY_INLINE __m512i eight_points(const Book& book, const Index& index) {
  const auto point = [&](int i) HWY_ATTR { return static_cast<int64_t>(book.point[index(i)]); };
  return _mm512_setr_epi64(point(0), point(1), point(2), point(3), point(4), point(5), point(6), point(7));
}
template <typename Book, typename Index>
HWY_INLINE __m512i sixteen_points(const Book& book, const Index& index) {
  const auto two = [&](int i) HWY_ATTR {
    return static_cast<int64_t>(book.point[index(i)] | static_cast<uint64_t>(book.point[index(i + 1)]) << 32);
  };
  return _mm512_setr_epi64(two(0), two(2), two(4), two(6), two(8), two(10), two(12), two(14));
}

HWY_INLINE __m512i plus_128(__m512i codes) {
  return _mm512_xor_si512(codes, _mm512_set1_epi8(static_cast<char>(0x80)));
}
HWY_INLINE __m512i signed_plus_128(__m512i codes, uint64_t minus) {
  return plus_128(_mm512_mask_sub_epi8(codes, minus, _mm512_setzero_si512(), codes));
}
// Four fields of seven signs each; the eighth makes the parity even.
HWY_INLINE uint64_t even_signs(uint32_t a, uint32_t b) {
  const uint64_t seven = _pdep_u64(a, 0x7f7f7f7f) | _pdep_u64(b, 0x7f7f7f7f) << 32;
  uint64_t odd = seven ^ seven >> 4; // only low bits of each byte stay clean
  odd ^= odd >> 2;
  odd ^= odd >> 1;
  return seven | (odd & 0x0101010101010101) << 7;
}

// d * (first + step * n); n: the low four bits, kBits of them.
template <int kBits = 4>
HWY_INLINE __m512 scales_of(__m512 d, __m512i n, float first, float step) {
  const auto scale = [&](int i) HWY_ATTR { return first + step * static_cast<float>(i % (1 << kBits)); };
  const __m512 scales =
      _mm512_setr_ps(scale(0), scale(1), scale(2), scale(3), scale(4), scale(5), scale(6), scale(7), scale(8), scale(9),
                     scale(10), scale(11), scale(12), scale(13), scale(14), scale(15));
  return _mm512_mul_ps(d, _mm512_permutexvar_ps(n, scales));
}
HWY_INLINE __m512i twice_int(__m512i v) { return _mm512_castps_si512(twice(_mm512_castsi512_ps(v))); }
// In the low four bits; others are arbitrary.
HWY_INLINE __m512i sixteen_nibbles(const uint8_t* p) {
#if RIDGE_BYTE_PERMUTATIONS
  const __m512i shift = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60);
  return _mm512_multishift_epi64_epi8(shift, _mm512_set1_epi64(static_cast<int64_t>(load64(p))));
#else
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(load64(p))));
  const __m512i shift = _mm512_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4);
  return _mm512_srlv_epi32(twice_int(bytes), shift);
#endif
}

HWY_INLINE __m512 scales_of(const quant::IQ3_XXS& b) {
  const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b.signs_scale));
  return scales_of(broadcast_half(b.d), twice_int(_mm512_castsi256_si512(_mm256_srli_epi32(words, 28))), 0.25f, 0.5f);
}
HWY_INLINE __m512 scales_of(const quant::IQ3_S& b) {
  const __m512i shift = _mm512_setr_epi32(0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28);
  const __m512i words = _mm512_set1_epi32(static_cast<int>(load32(b.scales)));
  return scales_of(broadcast_half(b.d), _mm512_srlv_epi32(words, shift), 1.0f, 2.0f);
}

template <>
struct Unpacker<quant::IQ2_S> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::IQ2_S* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const uint8_t* q = b->qs + 8 * j;
      const uint32_t high = load16(b->qh + 2 * j);
      const __m512i codes =
          eight_points(quant::kIq2SCodebook, [&](int i) HWY_ATTR { return q[i] | (high >> (2 * i) & 3) << 8; });
      out.code[j].raw = signed_plus_128(codes, load64(b->signs + 8 * j));
    }
    out.scale[0].raw = scales_of(broadcast_half(b->d), sixteen_nibbles(b->scales), 0.125f, 0.25f);
  }
};

#if !RIDGE_BYTE_PERMUTATIONS
template <>
struct Unpacker<quant::IQ2_XXS> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::IQ2_XXS* b, Chunk& out) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(b->qs); // per group: four indices, signs, scale
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const uint8_t* q = bytes + 16 * j;
      const __m512i codes = eight_points(quant::kIq2XxsCodebook, [&](int i) HWY_ATTR { return q[i + i / 4 * 4]; });
      out.code[j].raw = signed_plus_128(codes, even_signs(load32(q + 4), load32(q + 12)));
    }
    const __m512i odd = _mm512_setr_epi32(1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 13, 13, 15, 15);
    const __m512i words = _mm512_permutexvar_epi32(odd, _mm512_loadu_si512(bytes));
    out.scale[0].raw = scales_of(broadcast_half(b->d), _mm512_srli_epi32(words, 28), 0.125f, 0.25f);
  }
};

template <>
struct Unpacker<quant::IQ2_XS> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::IQ2_XS* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const uint16_t* q = b->qs + 8 * j;
      const __m512i codes = eight_points(quant::kIq2XsCodebook, [&](int i) HWY_ATTR { return q[i] & 511; });
      const uint64_t a = load64(q), c = load64(q + 4);
      const auto signs = [](uint64_t four)
                             HWY_ATTR { return static_cast<uint32_t>(_pext_u64(four, 0xfe00fe00fe00fe00)); };
      out.code[j].raw = signed_plus_128(codes, even_signs(signs(a), signs(c)));
    }
    out.scale[0].raw = scales_of(broadcast_half(b->d), sixteen_nibbles(b->scales), 0.125f, 0.25f);
  }
};

template <>
struct Unpacker<quant::IQ3_XXS> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::IQ3_XXS* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const uint8_t* q = b->qs + 16 * j;
      const __m512i codes = sixteen_points(quant::kIq3XxsCodebook, [&](int i) HWY_ATTR { return q[i]; });
      const uint16_t* bits = b->signs_scale + 4 * j;
      out.code[j].raw = signed_plus_128(codes, even_signs(load32(bits), load32(bits + 2)));
    }
    out.scale[0].raw = scales_of(*b);
  }
};

template <>
struct Unpacker<quant::IQ3_S> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::IQ3_S* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const uint8_t* q = b->qs + 16 * j;
      const uint32_t ninth = load16(b->qh + 2 * j);
      const __m512i codes =
          sixteen_points(quant::kIq3SCodebook, [&](int i) HWY_ATTR { return q[i] | (ninth >> i & 1) << 8; });
      out.code[j].raw = signed_plus_128(codes, load64(b->signs + 8 * j));
    }
    out.scale[0].raw = scales_of(*b);
  }
};
#endif // !RIDGE_BYTE_PERMUTATIONS

// Plus 1, or minus 1 where `minus` is set.
HWY_INLINE __m512i shifted_plus_128(__m512i codes, __mmask8 minus) {
  const __m512i shift = _mm512_mask_mov_epi64(_mm512_set1_epi8(1), minus, _mm512_set1_epi8(-1));
  return plus_128(_mm512_add_epi8(codes, shift));
}

template <>
struct Unpacker<quant::IQ1_S> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::IQ1_S* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const uint8_t* q = b->qs + 8 * j;
      const uint32_t high[2] = {b->qh[2 * j], b->qh[2 * j + 1]};
      const __m512i codes = eight_points(
          quant::kIq1Codebook, [&](int i) HWY_ATTR { return q[i] | (high[i / 4] >> (3 * (i % 4)) & 7) << 8; });
      const uint32_t minus = (high[0] >> 15) * 0x0f | (high[1] >> 15) * 0xf0;
      out.code[j].raw = shifted_plus_128(codes, static_cast<__mmask8>(minus));
    }
    const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b->qh)));
    const __m512i n = twice_int(_mm512_castsi256_si512(_mm256_srli_epi32(words, 12)));
    out.scale[0].raw = scales_of<3>(broadcast_half(b->d), n, 0.125f, 0.25f);
  }
};

// In the low three bits; others are arbitrary.
HWY_INLINE __m512i three_bit_scales(const quant::IQ1_M& b) {
  const __m512i lane = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  const __m512i shift = _mm512_setr_epi32(0, 3, 6, 9, 0, 3, 6, 9, 0, 3, 6, 9, 0, 3, 6, 9);
  const __m512i words =
      _mm512_cvtepu16_epi32(_mm256_castsi128_si256(_mm_cvtsi64_si128(static_cast<int64_t>(load64(b.scales)))));
  return _mm512_srlv_epi32(_mm512_permutexvar_epi32(lane, words), shift);
}

template <>
struct Unpacker<quant::IQ1_M> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::IQ1_M* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const uint8_t* q = b->qs + 8 * j;
      const uint32_t high = load32(b->qh + 4 * j); // per point: three index bits, sign of the shift
      const __m512i codes =
          eight_points(quant::kIq1Codebook, [&](int i) HWY_ATTR { return q[i] | (high >> (4 * i) & 7) << 8; });
      out.code[j].raw = shifted_plus_128(codes, static_cast<__mmask8>(_pext_u32(high, 0x88888888)));
    }
    out.scale[0].raw = scales_of<3>(_mm512_set1_ps(b->d()), three_bit_scales(*b), 0.125f, 0.25f);
  }
};

template <>
struct Unpacker<quant::TQ2_0> {
  static constexpr int kBias = 1;
  static HWY_INLINE void unpack(const quant::TQ2_0* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) out.code[j].raw = two_bits(b->qs, j);
    out.scale[0].raw = broadcast_half(b->d);
  }
};

template <>
struct Unpacker<quant::Q1_0> {
  static constexpr int kBias = 1;
  static HWY_INLINE void unpack(const quant::Q1_0* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) out.code[j].raw = _mm512_maskz_set1_epi8(load64(b[j / 2].qs + 8 * (j % 2)), 2);
    out.scale[0].raw = _mm512_mask_mov_ps(broadcast_half(b[0].d), 0xff00, broadcast_half(b[1].d));
  }
};

template <>
struct Unpacker<quant::Q2_0> {
  static constexpr int kBias = 1;
  static HWY_INLINE void unpack(const quant::Q2_0* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) { // one byte per lane, a 2-bit field per byte
      const __m512i x = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b[j].qs)));
      const __m512i low = _mm512_or_si512(x, _mm512_slli_epi32(x, 6));
      out.code[j].raw = and_bytes(_mm512_or_si512(low, _mm512_slli_epi32(low, 12)), 3);
    }
    const __m512 d01 = _mm512_mask_mov_ps(broadcast_half(b[0].d), 0x00f0, broadcast_half(b[1].d));
    const __m512 d23 = _mm512_mask_mov_ps(broadcast_half(b[2].d), 0xf000, broadcast_half(b[3].d));
    out.scale[0].raw = _mm512_mask_mov_ps(d01, 0xff00, d23);
  }
};

template <typename Block>
HWY_INLINE void unpack_nvfp4(const Block& block, Chunk& out) {
  HWY_UNROLL(4)
  for (int j = 0; j < 4; ++j) {
    const __m512i bytes = _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(block(j).qs)));
    const __m512i doubled = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3), bytes);
    const __m512i shift = _mm512_setr_epi64(0, 4, 0, 4, 0, 4, 0, 4);
    out.code[j].raw = look_up(e2m1_levels(), and_bytes(_mm512_srlv_epi64(doubled, shift), 15));
  }
  const auto scales = [&](int j) HWY_ATTR { return static_cast<int>(load32(block(j).d)); };
  const __m512i all = _mm512_cvtepu8_epi32(_mm_setr_epi32(scales(0), scales(1), scales(2), scales(3)));
  const __m512i bits = _mm512_slli_epi32(_mm512_and_si512(all, _mm512_set1_epi32(0x7f)), 20);
  const __mmask16 number = _mm512_cmpneq_epi32_mask(all, _mm512_set1_epi32(0x7f));
  out.scale[0].raw = _mm512_maskz_mul_ps(number, _mm512_castsi512_ps(bits), _mm512_set1_ps(0x1p119f));
}

template <>
struct Unpacker<quant::NVFP4> {
  static constexpr int kBias = 12;
  static HWY_INLINE void unpack(const quant::NVFP4* b, Chunk& out) {
    unpack_nvfp4([b](int j) HWY_ATTR -> const quant::NVFP4& { return b[j]; }, out);
  }
};

template <>
struct Unpacker<quant::NVFP4_SCALED> {
  static constexpr int kBias = 12;
  static HWY_INLINE void unpack(const quant::NVFP4_SCALED* b, Chunk& out) {
    unpack_nvfp4([b](int j) HWY_ATTR -> const quant::NVFP4& { return b[j].block; }, out);
    const __m128 m = _mm_setr_ps(b[0].m, b[1].m, b[2].m, b[3].m);
    const __m512i four_each = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m512 factor = _mm512_permutexvar_ps(four_each, _mm512_castps128_ps512(m));
    out.scale[0].raw = _mm512_mul_ps(factor, out.scale[0].raw);
  }
};

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif // RIDGE_WIDE

#endif
