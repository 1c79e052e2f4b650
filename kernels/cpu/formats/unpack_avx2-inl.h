#if defined(RIDGE_CPU_UNPACK_AVX2_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_UNPACK_AVX2_INL_H
#undef RIDGE_CPU_UNPACK_AVX2_INL_H
#else
#define RIDGE_CPU_UNPACK_AVX2_INL_H
#endif

#include "kernels/cpu/formats/unpack-inl.h"
#include "quant/all_formats.h"

#include <cstddef>

#if HWY_TARGET == HWY_AVX2
HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

HWY_INLINE __m256i load256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
HWY_INLINE __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
template <typename T>
HWY_INLINE T load_as(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

HWY_INLINE __m256i and_bytes(__m256i v, int mask) {
  return _mm256_and_si256(v, _mm256_set1_epi8(static_cast<char>(mask)));
}
template <int kBit, int kTo>
HWY_INLINE __m256i bits_to(__m256i v, int mask) {
  if constexpr (kBit > kTo) return and_bytes(_mm256_srli_epi16(v, kBit - kTo), mask);
  return and_bytes(_mm256_slli_epi16(v, kTo - kBit), mask);
}

HWY_INLINE __m256i nibbles(const uint8_t* p) {
  const __m128i bytes = load128(p);
  return and_bytes(_mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes), 15);
}
HWY_INLINE __m256i look_up(__m128i entries, __m256i nibble) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(entries), nibble);
}

HWY_INLINE __m256 floats_of_bytes(uint64_t bytes) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes))));
}
HWY_INLINE __m256 broadcast_half(core::Half h) {
  return _mm256_set1_ps(_mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h.bits))));
}
HWY_INLINE void set_twice(__m256 v, VF (&out)[kScaleVectors]) {
  out[0].raw = _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
  out[1].raw = _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7));
}
template <int kStride>
HWY_INLINE __m256 eight_halves(const void* p) {
  const auto at = [&](int i) HWY_ATTR { return load_as<int16_t>(static_cast<const uint8_t*>(p) + kStride * i); };
  return _mm256_cvtph_ps(_mm_setr_epi16(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)));
}

template <>
struct Unpacker<quant::Q8_0> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::Q8_0* b, Chunk& out) {
    HWY_UNROLL(8)
    for (int i = 0; i < 8; ++i)
      out.code[i].raw = _mm256_xor_si256(load256(b[i].qs), _mm256_set1_epi8(static_cast<char>(0x80)));
    set_twice(eight_halves<sizeof(*b)>(&b->d), out.scale);
  }
};

template <>
struct Unpacker<quant::Q4_0> {
  static constexpr int kBias = 8;
  static HWY_INLINE void unpack(const quant::Q4_0* b, Chunk& out) {
    HWY_UNROLL(8)
    for (int i = 0; i < 8; ++i) out.code[i].raw = nibbles(b[i].qs);
    set_twice(eight_halves<sizeof(*b)>(&b->d), out.scale);
  }
};

template <>
struct Unpacker<quant::Q4_1> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q4_1* b, Chunk& out) {
    HWY_UNROLL(8)
    for (int i = 0; i < 8; ++i) out.code[i].raw = nibbles(b[i].qs);
    set_twice(eight_halves<sizeof(*b)>(&b->d), out.scale);
    set_twice(eight_halves<sizeof(*b)>(&b->m), out.offset);
  }
};

// Adds 16 where bit i of qh is set.
template <typename Block>
HWY_INLINE __m256i five_bits(const Block& b) {
  const __m256i byte_of = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(load_as<int32_t>(b.qh)), byte_of);
  const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
  return _mm256_or_si256(nibbles(b.qs), and_bytes(set, 16));
}

template <>
struct Unpacker<quant::Q5_0> {
  static constexpr int kBias = 16;
  static HWY_INLINE void unpack(const quant::Q5_0* b, Chunk& out) {
    HWY_UNROLL(8)
    for (int i = 0; i < 8; ++i) out.code[i].raw = five_bits(b[i]);
    set_twice(eight_halves<sizeof(*b)>(&b->d), out.scale);
  }
};

template <>
struct Unpacker<quant::Q5_1> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q5_1* b, Chunk& out) {
    HWY_UNROLL(8)
    for (int i = 0; i < 8; ++i) out.code[i].raw = five_bits(b[i]);
    set_twice(eight_halves<sizeof(*b)>(&b->d), out.scale);
    set_twice(eight_halves<sizeof(*b)>(&b->m), out.offset);
  }
};

HWY_INLINE __m128i iq4_levels() {
  return _mm_xor_si128(load128(quant::kIq4Levels), _mm_set1_epi8(static_cast<char>(0x80)));
}

template <>
struct Unpacker<quant::IQ4_NL> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::IQ4_NL* b, Chunk& out) {
    HWY_UNROLL(8)
    for (int i = 0; i < 8; ++i) out.code[i].raw = look_up(iq4_levels(), nibbles(b[i].qs));
    set_twice(eight_halves<sizeof(*b)>(&b->d), out.scale);
  }
};

template <>
struct Unpacker<quant::IQ4_XS> {
  static constexpr int kBias = 128;
  static HWY_INLINE void unpack(const quant::IQ4_XS* b, Chunk& out) {
    HWY_UNROLL(8)
    for (int i = 0; i < 8; ++i) out.code[i].raw = look_up(iq4_levels(), nibbles(b->qs + 16 * i));
    const __m256i low = _mm256_srlv_epi32(_mm256_set1_epi32(load_as<int32_t>(b->scales_l)),
                                          _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    const __m256i high =
        _mm256_srlv_epi32(_mm256_set1_epi32(b->scales_h), _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
    const __m256i scale = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(15)),
                                          _mm256_slli_epi32(_mm256_and_si256(high, _mm256_set1_epi32(3)), 4));
    const __m256 signed_scale = _mm256_cvtepi32_ps(_mm256_sub_epi32(scale, _mm256_set1_epi32(32)));
    set_twice(_mm256_mul_ps(broadcast_half(b->d), signed_scale), out.scale);
  }
};

template <>
struct Unpacker<quant::MXFP4> {
  static constexpr int kBias = 12;
  static HWY_INLINE void unpack(const quant::MXFP4* b, Chunk& out) {
    const __m128i levels = // doubled_e2m1 of each nibble, + 12
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    HWY_UNROLL(8)
    for (int i = 0; i < 8; ++i) out.code[i].raw = look_up(levels, nibbles(b[i].qs));
    const __m256i e = _mm256_setr_epi32(b[0].e, b[1].e, b[2].e, b[3].e, b[4].e, b[5].e, b[6].e, b[7].e);
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const __m256i tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    set_twice(_mm256_castsi256_ps(_mm256_blendv_epi8(normal, subnormal, tiny)), out.scale);
  }
};

// 8 scales, then 8 mins, 6 bits each.
template <typename Block>
HWY_INLINE void k_scales(const Block& b, Chunk& out) {
  const auto a0 = load_as<uint32_t>(b.scales), a1 = load_as<uint32_t>(b.scales + 4),
             a2 = load_as<uint32_t>(b.scales + 8);
  const uint32_t scale_high = (a2 & 0x0f0f0f0f) | (a0 >> 2 & 0x30303030);
  const uint32_t min_high = (a2 >> 4 & 0x0f0f0f0f) | (a1 >> 2 & 0x30303030);
  const __m256 scale = floats_of_bytes((a0 & 0x3f3f3f3f) | static_cast<uint64_t>(scale_high) << 32);
  const __m256 min = floats_of_bytes((a1 & 0x3f3f3f3f) | static_cast<uint64_t>(min_high) << 32);
  set_twice(_mm256_mul_ps(scale, broadcast_half(b.d)), out.scale);
  set_twice(_mm256_mul_ps(min, _mm256_xor_ps(broadcast_half(b.dmin), _mm256_set1_ps(-0.0f))), out.offset);
}

template <>
struct Unpacker<quant::Q4_K> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q4_K* b, Chunk& out) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const __m256i both = load256(b->qs + 32 * j);
      out.code[2 * j].raw = and_bytes(both, 15);
      out.code[2 * j + 1].raw = and_bytes(_mm256_srli_epi16(both, 4), 15);
    }
    k_scales(*b, out);
  }
};

template <>
struct Unpacker<quant::Q5_K> {
  static constexpr int kBias = 0;
  template <int kJ>
  static HWY_INLINE void unpack_two(const quant::Q5_K* b, __m256i fifth, Chunk& out) {
    const __m256i both = load256(b->qs + 32 * kJ);
    out.code[2 * kJ].raw = _mm256_or_si256(and_bytes(both, 15), bits_to<2 * kJ, 4>(fifth, 16));
    out.code[2 * kJ + 1].raw =
        _mm256_or_si256(and_bytes(_mm256_srli_epi16(both, 4), 15), bits_to<2 * kJ + 1, 4>(fifth, 16));
  }
  static HWY_INLINE void unpack(const quant::Q5_K* b, Chunk& out) {
    const __m256i fifth = load256(b->qh);
    unpack_two<0>(b, fifth, out);
    unpack_two<1>(b, fifth, out);
    unpack_two<2>(b, fifth, out);
    unpack_two<3>(b, fifth, out);
    k_scales(*b, out);
  }
};

HWY_INLINE void set_scales16(__m128i bytes, __m256 d, VF (&out)[kScaleVectors]) {
  out[0].raw = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)));
  out[1].raw = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))));
}

template <>
struct Unpacker<quant::Q6_K> {
  static constexpr int kBias = 32;
  static HWY_INLINE void unpack(const quant::Q6_K* b, Chunk& out) {
    HWY_UNROLL(2)
    for (int h = 0; h < 2; ++h) {
      const __m256i low0 = load256(b->ql + 64 * h), low1 = load256(b->ql + 64 * h + 32), high = load256(b->qh + 32 * h);
      VI* code = out.code + 4 * h;
      code[0].raw = _mm256_or_si256(and_bytes(low0, 15), bits_to<0, 4>(high, 0x30));
      code[1].raw = _mm256_or_si256(and_bytes(low1, 15), bits_to<2, 4>(high, 0x30));
      code[2].raw = _mm256_or_si256(bits_to<4, 0>(low0, 15), bits_to<4, 4>(high, 0x30));
      code[3].raw = _mm256_or_si256(bits_to<4, 0>(low1, 15), bits_to<6, 4>(high, 0x30));
    }
    set_scales16(load128(b->scales), broadcast_half(b->d), out.scale);
  }
};

// The 2-bit fields of 32 bytes.
HWY_INLINE void two_bits(const uint8_t* qs, VI* code) {
  const __m256i four = load256(qs);
  code[0].raw = and_bytes(four, 3);
  code[1].raw = bits_to<2, 0>(four, 3);
  code[2].raw = bits_to<4, 0>(four, 3);
  code[3].raw = bits_to<6, 0>(four, 3);
}

template <>
struct Unpacker<quant::Q2_K> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q2_K* b, Chunk& out) {
    two_bits(b->qs, out.code);
    two_bits(b->qs + 32, out.code + 4);
    const __m128i both = load128(b->scales), nibble = _mm_set1_epi8(15);
    const __m256 minus = _mm256_xor_ps(broadcast_half(b->dmin), _mm256_set1_ps(-0.0f));
    set_scales16(_mm_and_si128(both, nibble), broadcast_half(b->d), out.scale);
    set_scales16(_mm_and_si128(_mm_srli_epi16(both, 4), nibble), minus, out.offset);
  }
};

template <>
struct Unpacker<quant::Q3_K> {
  static constexpr int kBias = 4;
  template <int kI>
  static HWY_INLINE void add_third(__m256i third, Chunk& out) {
    out.code[kI].raw = _mm256_or_si256(out.code[kI].raw, bits_to<kI, 2>(third, 4));
  }
  static HWY_INLINE void unpack(const quant::Q3_K* b, Chunk& out) {
    two_bits(b->qs, out.code);
    two_bits(b->qs + 32, out.code + 4);
    const __m256i third = load256(b->hmask);
    add_third<0>(third, out);
    add_third<1>(third, out);
    add_third<2>(third, out);
    add_third<3>(third, out);
    add_third<4>(third, out);
    add_third<5>(third, out);
    add_third<6>(third, out);
    add_third<7>(third, out);
    const auto low = load_as<uint64_t>(b->scales);
    const auto high = load_as<uint32_t>(b->scales + 8);
    const auto upper_bits = [&](int shift) HWY_ATTR {
      return static_cast<uint64_t>(high >> shift & 0x03030303) << 4 |
             static_cast<uint64_t>(high >> (shift + 2) & 0x03030303) << 36;
    };
    const uint64_t first = (low & 0x0f0f0f0f0f0f0f0f) | upper_bits(0),
                   second = (low >> 4 & 0x0f0f0f0f0f0f0f0f) | upper_bits(4);
    const __m128i scales = _mm_set_epi64x(static_cast<int64_t>(second), static_cast<int64_t>(first));
    set_scales16(_mm_sub_epi8(scales, _mm_set1_epi8(32)), broadcast_half(b->d), out.scale);
  }
};

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif // HWY_TARGET == HWY_AVX2

#endif
