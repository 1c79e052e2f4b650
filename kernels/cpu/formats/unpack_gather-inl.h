// Unpackers of codebooks of eight weights that gather their points: faster than permutations and single loads on CPUs
// with AMX (four cycles for eight points), slower on others.
#if defined(RIDGE_CPU_UNPACK_GATHER_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_UNPACK_GATHER_INL_H
#undef RIDGE_CPU_UNPACK_GATHER_INL_H
#else
#define RIDGE_CPU_UNPACK_GATHER_INL_H
#endif

#include "kernels/cpu/formats/unpack_points-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

// In place of Unpacker where byte_dots() is amx.
template <typename Format>
struct GatheringUnpacker {};

#if RIDGE_BYTE_PERMUTATIONS
// Codes + kAdd.
template <int kAdd, int kSize>
constexpr quant::Codebook<uint64_t, kSize> shifted(const quant::Codebook<uint64_t, kSize>& book) {
  quant::Codebook<uint64_t, kSize> out{};
  for (int i = 0; i < kSize; ++i)
    for (int k = 0; k < 64; k += 8) out.point[i] |= static_cast<uint64_t>(((book.point[i] >> k) + kAdd) & 0xff) << k;
  return out;
}
inline constexpr auto kIq2XxsPoints = shifted<128>(quant::kIq2XxsCodebook);
inline constexpr auto kIq2XsPoints = shifted<128>(quant::kIq2XsCodebook);
inline constexpr auto kIq2SPoints = shifted<128>(quant::kIq2SCodebook);
inline constexpr auto kIq1Points = shifted<127>(quant::kIq1Codebook);

template <int kSize>
HWY_INLINE __m512i gather(const quant::Codebook<uint64_t, kSize>& book, __m256i index) {
  return _mm512_mask_i32gather_epi64(_mm512_setzero_si512(), 0xff, index,
                                     reinterpret_cast<const long long*>(book.point), 8);
}
HWY_INLINE __m256i eight_bytes(const uint8_t* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
HWY_INLINE __m256i or_masked(__m256i v, int mask, __m256i low) {
  return _mm256_ternarylogic_epi32(v, _mm256_set1_epi32(mask), low, 0xea);
}
HWY_INLINE __m256i broadcast_word(const void* p) { return _mm256_set1_epi32(static_cast<int>(load32(p))); }

template <>
struct GatheringUnpacker<quant::IQ2_XXS> {
  static HWY_INLINE void unpack(const quant::IQ2_XXS* b, Chunk& out) {
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 1, 3, 5, 7, 9, 11, 13, 15);
    const __m512i signs_scale = _mm512_permutexvar_epi32(odd, _mm512_loadu_si512(b->qs));
    const Signs signs = even_signs_of_words(_mm512_castsi512_si256(signs_scale));
    const __m256i places = _mm256_setr_epi32(-0x100, -0xff, -0xfe, -0xfd, -0xf8, -0xf7, -0xf6, -0xf5);
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) { // the first four bytes of each eight
      const __m128i two = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b->qs + 8 * j));
      const __m256i index = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(two), places);
      out.code[j].raw = with_signs(gather(kIq2XxsPoints, index), signs.of[j]);
    }
    out.scale[0].raw = scales_of(broadcast_half(b->d), twice_int(_mm512_srli_epi32(signs_scale, 28)), 0.125f, 0.25f);
  }
};

template <>
struct GatheringUnpacker<quant::IQ2_XS> {
  static HWY_INLINE void unpack(const quant::IQ2_XS* b, Chunk& out) {
    const __m512i sevens = _mm512_srli_epi16(_mm512_loadu_si512(b->qs), 9);
    const Signs signs = even_signs(_mm512_cvtepi16_epi8(sevens));
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const __m256i q = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b->qs + 8 * j)));
      const __m256i index = _mm256_and_si256(q, _mm256_set1_epi32(511));
      out.code[j].raw = with_signs(gather(kIq2XsPoints, index), signs.of[j]);
    }
    out.scale[0].raw = scales_of(broadcast_half(b->d), sixteen_nibbles(b->scales), 0.125f, 0.25f);
  }
};

template <>
struct GatheringUnpacker<quant::IQ2_S> {
  static HWY_INLINE void unpack(const quant::IQ2_S* b, Chunk& out) {
    const __m256i to_bit_8 = _mm256_setr_epi32(8, 6, 4, 2, 0, 30, 28, 26);
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const __m256i high = _mm256_rolv_epi32(broadcast_word(b->qh + 2 * j), to_bit_8);
      const __m256i index = or_masked(high, 0x300, eight_bytes(b->qs + 8 * j));
      out.code[j].raw = with_signs(gather(kIq2SPoints, index), load64(b->signs + 8 * j));
    }
    out.scale[0].raw = scales_of(broadcast_half(b->d), sixteen_nibbles(b->scales), 0.125f, 0.25f);
  }
};

// Points have the negative shift.
HWY_INLINE __m512i with_shifts(__m512i codes, __mmask8 plus) {
  return _mm512_mask_add_epi64(codes, plus, codes, _mm512_set1_epi8(2)); // no byte overflows
}

template <>
struct GatheringUnpacker<quant::IQ1_S> {
  static HWY_INLINE void unpack(const quant::IQ1_S* b, Chunk& out) {
    const __m256i qh = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b->qh)));
    const __m256i to_bit_8 = _mm256_setr_epi32(8, 5, 2, 31, 8, 5, 2, 31);
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const __m256i lane = _mm256_setr_epi32(2 * j, 2 * j, 2 * j, 2 * j, 2 * j + 1, 2 * j + 1, 2 * j + 1, 2 * j + 1);
      const __m256i four_each = _mm256_permutevar8x32_epi32(qh, lane);
      const __m256i index = or_masked(_mm256_rolv_epi32(four_each, to_bit_8), 0x700, eight_bytes(b->qs + 8 * j));
      const __mmask8 plus = _mm256_testn_epi32_mask(four_each, _mm256_set1_epi32(0x8000));
      out.code[j].raw = with_shifts(gather(kIq1Points, index), plus);
    }
    const __m512i n = twice_int(_mm512_castsi256_si512(_mm256_srli_epi32(qh, 12)));
    out.scale[0].raw = scales_of<3>(broadcast_half(b->d), n, 0.125f, 0.25f);
  }
};

template <>
struct GatheringUnpacker<quant::IQ1_M> {
  static HWY_INLINE void unpack(const quant::IQ1_M* b, Chunk& out) {
    const __m256i to_bit_8 = _mm256_setr_epi32(8, 4, 0, 28, 24, 20, 16, 12);
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) { // per point: three index bits, sign of the shift
      const __m256i high = _mm256_rolv_epi32(broadcast_word(b->qh + 4 * j), to_bit_8);
      const __m256i index = or_masked(high, 0x700, eight_bytes(b->qs + 8 * j));
      const __mmask8 plus = _mm256_testn_epi32_mask(high, _mm256_set1_epi32(0x800));
      out.code[j].raw = with_shifts(gather(kIq1Points, index), plus);
    }
    out.scale[0].raw = scales_of<3>(_mm512_set1_ps(b->d()), three_bit_scales(*b), 0.125f, 0.25f);
  }
};
#endif // RIDGE_BYTE_PERMUTATIONS

template <typename Format>
constexpr bool kGathers = requires(const Format* b, Chunk& out) {
  GatheringUnpacker<Format>::unpack(b, out);
};

template <typename Format, ByteDots kDots>
HWY_INLINE void unpack_chunk(const Format* blocks, Chunk& out) {
  if constexpr (kDots == ByteDots::amx)
    GatheringUnpacker<Format>::unpack(blocks, out);
  else
    Unpacker<Format>::unpack(blocks, out);
}

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
