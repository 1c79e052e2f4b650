// 512-bit unpackers of codebooks by byte permutations.
//
// A point is 16 bits: 2 bits per weight (IQ2), 4 bits (IQ3). The points of 32 or 64 indices come from tables of
// registers, are copied next to their weights, and each weight's bits are shifted down and replaced by its level.
#if defined(RIDGE_CPU_UNPACK_POINTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_UNPACK_POINTS_INL_H
#undef RIDGE_CPU_UNPACK_POINTS_INL_H
#else
#define RIDGE_CPU_UNPACK_POINTS_INL_H
#endif

#include "kernels/cpu/formats/unpack_codebook-inl.h"

#if RIDGE_BYTE_PERMUTATIONS
HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

template <int kSize>
struct alignas(64) PointWords {
  uint16_t word[kSize];
};
template <int kSize>
struct alignas(64) PointBytes {
  uint8_t low[kSize], high[kSize];
};

// Weight i's level, or its place among the levels, at bit 16 / weights * i.
template <typename Point, int kSize, int kLevels>
constexpr uint16_t packed_point(const quant::Codebook<Point, kSize>& book, int index, const int (&levels)[kLevels],
                                bool places) {
  constexpr int kWeights = sizeof(Point);
  uint32_t packed = 0;
  for (int i = 0; i < kWeights; ++i) {
    const int level = static_cast<int8_t>(book.point[index] >> (8 * i) & 0xff);
    int field = places ? 0 : level;
    while (places && levels[field] != level) ++field;
    packed |= static_cast<uint32_t>(field) << (16 / kWeights * i);
  }
  return static_cast<uint16_t>(packed);
}
template <int kSize>
constexpr PointWords<kSize> words_of(const quant::Codebook<uint64_t, kSize>& book) {
  PointWords<kSize> out{};
  for (int i = 0; i < kSize; ++i) out.word[i] = packed_point(book, i, quant::kIq2Levels, true);
  return out;
}
template <int kSize>
constexpr PointBytes<kSize> bytes_of(const quant::Codebook<uint32_t, kSize>& book, const int (&levels)[8],
                                     bool places) {
  PointBytes<kSize> out{};
  for (int i = 0; i < kSize; ++i) {
    const uint16_t packed = packed_point(book, i, levels, places);
    out.low[i] = static_cast<uint8_t>(packed);
    out.high[i] = static_cast<uint8_t>(packed >> 8);
  }
  return out;
}
inline constexpr auto kIq2XxsWords = words_of(quant::kIq2XxsCodebook);
inline constexpr auto kIq2XsWords = words_of(quant::kIq2XsCodebook);
inline constexpr auto kIq3XxsBytes = bytes_of(quant::kIq3XxsCodebook, quant::kIq3XxsLevels, true);
inline constexpr auto kIq3SBytes = bytes_of(quant::kIq3SCodebook, quant::kIq3SLevels, false);

// above: bits of the indices from the first that one permutation does not see.
template <int kSize>
HWY_INLINE __m512i look_up_words(const uint16_t* word, __m512i index, const __mmask32* above) {
  if constexpr (kSize == 64) {
    return _mm512_permutex2var_epi16(_mm512_load_si512(word), index, _mm512_load_si512(word + 32));
  } else {
    constexpr int kBit = kSize == 128 ? 0 : kSize == 256 ? 1 : 2;
    return _mm512_mask_blend_epi16(above[kBit], look_up_words<kSize / 2>(word, index, above),
                                   look_up_words<kSize / 2>(word + kSize / 2, index, above));
  }
}
template <int kSize>
HWY_INLINE __m512i look_up_bytes(const uint8_t* byte, __m512i index, const __mmask64* above) {
  if constexpr (kSize == 128) {
    return _mm512_permutex2var_epi8(_mm512_load_si512(byte), index, _mm512_load_si512(byte + 64));
  } else {
    return _mm512_mask_blend_epi8(above[kSize / 512], look_up_bytes<kSize / 2>(byte, index, above),
                                  look_up_bytes<kSize / 2>(byte + kSize / 2, index, above));
  }
}
HWY_INLINE __mmask32 bit_of_words(__m512i words, int bit) {
  return _mm512_test_epi16_mask(words, _mm512_set1_epi16(static_cast<short>(1 << bit)));
}

// bytes[i] = place(i).
template <typename Place>
constexpr auto byte_places(const Place& place) {
  struct alignas(64) Places {
    uint8_t place[64];
  } places{};
  for (int i = 0; i < 64; ++i) places.place[i] = static_cast<uint8_t>(place(i));
  return places;
}
template <typename Places>
HWY_INLINE __m512i load_places(const Places& places) {
  return _mm512_load_si512(places.place);
}

// Up to eight levels, a byte each.
template <int kCount>
constexpr int64_t levels_plus_128(const int (&levels)[kCount]) {
  uint64_t bytes = 0;
  for (int i = 0; i < kCount; ++i) bytes |= static_cast<uint64_t>(128 + levels[i]) << (8 * i);
  return static_cast<int64_t>(bytes);
}

// Codes + 128 of the 64 weights from 64 j, of 32 points with 2 bits a weight.
HWY_INLINE __m512i codes_of_words(__m512i words, int j) {
  static constexpr auto kCopies = byte_places([](int i) { return i / 8 * 2 + i % 2; });
  static constexpr auto kShifts = byte_places([](int i) { return i % 8 * 2; });
  constexpr auto kLevels = static_cast<int>(levels_plus_128(quant::kIq2Levels));
  const __m512i from = _mm512_or_si512(load_places(kCopies), _mm512_set1_epi8(static_cast<char>(16 * j)));
  const __m512i fields = _mm512_multishift_epi64_epi8(load_places(kShifts), _mm512_permutexvar_epi8(from, words));
  return _mm512_permutexvar_epi8(fields, _mm512_set1_epi32(kLevels));
}
// Points of 4 bits a weight.
struct FourBitPoints {
  __m512i word[2]; // of 32 points

  HWY_INLINE FourBitPoints(__m512i low, __m512i high) {
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    low = _mm512_permutexvar_epi64(order, low);
    high = _mm512_permutexvar_epi64(order, high);
    word[0] = _mm512_unpacklo_epi8(low, high);
    word[1] = _mm512_unpackhi_epi8(low, high);
  }
  // The 64 weights from 64 j; upper bits belong to the next weight.
  HWY_INLINE __m512i fields(int j) const {
    static constexpr auto kCopies = byte_places([](int i) { return i / 8 * 4 + i % 4; });
    static constexpr auto kShifts = byte_places([](int i) { return i % 8 * 4; });
    const __m512i from = _mm512_or_si512(load_places(kCopies), _mm512_set1_epi8(static_cast<char>(32 * (j % 2))));
    return _mm512_multishift_epi64_epi8(load_places(kShifts), _mm512_permutexvar_epi8(from, word[j / 2]));
  }
};

HWY_INLINE __m512i with_signs(__m512i codes_plus_128, uint64_t minus) {
  return _mm512_mask_sub_epi8(codes_plus_128, minus, _mm512_setzero_si512(), codes_plus_128);
}
struct alignas(32) Signs {
  uint64_t of[4]; // of 64 weights each
};
// The eighth sign of each byte makes its parity even.
HWY_INLINE Signs even_signs(__m256i sevens) {
  const __m256i last = _mm256_set1_epi8(static_cast<char>(0x80));
  const __m256i odd = _mm256_slli_epi16(_mm256_popcnt_epi8(_mm256_andnot_si256(last, sevens)), 7);
  Signs signs;
  _mm256_store_si256(reinterpret_cast<__m256i*>(signs.of), _mm256_ternarylogic_epi64(last, odd, sevens, 0xca));
  return signs;
}
// Signs of eight words that have four times seven.
HWY_INLINE Signs even_signs_of_words(__m256i words) {
  const __m256i shifts = _mm256_set1_epi64x(0x352e2720150e0700);
  return even_signs(_mm256_multishift_epi64_epi8(shifts, words));
}

template <>
struct Unpacker<quant::IQ2_XXS> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::IQ2_XXS* b, Chunk& out) {
    static constexpr auto kIndices = byte_places([](int i) { return i / 8 * 8 + i / 2 % 4; });
    const __m512i groups = _mm512_loadu_si512(b->qs); // each: four indices, signs, scale
    const __m512i index = _mm512_maskz_permutexvar_epi8(0x5555555555555555, load_places(kIndices), groups);
    const __mmask32 above[] = {bit_of_words(index, 6), bit_of_words(index, 7)};
    const __m512i words = look_up_words<256>(kIq2XxsWords.word, index, above);
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 1, 3, 5, 7, 9, 11, 13, 15);
    const __m512i signs_scale = _mm512_permutexvar_epi32(odd, groups);
    const Signs signs = even_signs_of_words(_mm512_castsi512_si256(signs_scale));
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) out.code[j].raw = with_signs(codes_of_words(words, j), signs.of[j]);
    out.scale[0].raw = scales_of(broadcast_half(b->d), twice_int(_mm512_srli_epi32(signs_scale, 28)), 0.125f, 0.25f);
  }
};

template <>
struct Unpacker<quant::IQ2_XS> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::IQ2_XS* b, Chunk& out) {
    const __m512i q = _mm512_loadu_si512(b->qs);
    const __mmask32 above[] = {bit_of_words(q, 6), bit_of_words(q, 7), bit_of_words(q, 8)};
    const __m512i words = look_up_words<512>(kIq2XsWords.word, q, above);
    const Signs signs = even_signs(_mm512_cvtepi16_epi8(_mm512_srli_epi16(q, 9)));
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) out.code[j].raw = with_signs(codes_of_words(words, j), signs.of[j]);
    out.scale[0].raw = scales_of(broadcast_half(b->d), sixteen_nibbles(b->scales), 0.125f, 0.25f);
  }
};

template <>
struct Unpacker<quant::IQ3_XXS> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::IQ3_XXS* b, Chunk& out) {
    const __m512i q = _mm512_loadu_si512(b->qs);
    const __mmask64 above[] = {_mm512_movepi8_mask(q)};
    const FourBitPoints points(look_up_bytes<256>(kIq3XxsBytes.low, q, above),
                               look_up_bytes<256>(kIq3XxsBytes.high, q, above));
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b->signs_scale));
    const Signs signs = even_signs_of_words(words);
    constexpr int64_t kLevels = levels_plus_128(quant::kIq3XxsLevels);
    const __m512i levels = _mm512_set1_epi64(kLevels);
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j)
      out.code[j].raw = with_signs(_mm512_permutexvar_epi8(points.fields(j), levels), signs.of[j]);
    out.scale[0].raw = scales_of(*b);
  }
};

template <>
struct Unpacker<quant::IQ3_S> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::IQ3_S* b, Chunk& out) {
    const __m512i q = _mm512_loadu_si512(b->qs);
    const __mmask64 above[] = {_mm512_movepi8_mask(q), load64(b->qh)};
    const FourBitPoints points(look_up_bytes<512>(kIq3SBytes.low, q, above),
                               look_up_bytes<512>(kIq3SBytes.high, q, above));
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const __m512i codes = or_masked(points.fields(j), 15, _mm512_set1_epi8(static_cast<char>(0x80)));
      out.code[j].raw = with_signs(codes, load64(b->signs + 8 * j));
    }
    out.scale[0].raw = scales_of(*b);
  }
};

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif // RIDGE_BYTE_PERMUTATIONS

#endif
