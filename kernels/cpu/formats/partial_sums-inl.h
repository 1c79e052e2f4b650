// The summation order of kernels.h where lanes are columns.
#if defined(RIDGE_CPU_PARTIAL_SUMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_PARTIAL_SUMS_INL_H
#undef RIDGE_CPU_PARTIAL_SUMS_INL_H
#else
#define RIDGE_CPU_PARTIAL_SUMS_INL_H
#endif

#include "kernels/cpu/formats/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

inline constexpr int64_t kCodeVectors = kChunk / 4 / kLanes;
inline constexpr int64_t kSumVectors = kPartialSums / kLanes;

// Lane i of `sums` gets the group of columns 16 i to 16 i + 15.
template <int kGroup>
HWY_INLINE void add_groups(const VI (&dots)[kCodeVectors], VI (&sums)[kSumVectors]) {
#if RIDGE_WIDE
  // Pairs, then pairs of pairs, within each 128 bits.
  const auto pairs = [](__m512i a, __m512i b) HWY_ATTR {
    return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  };
  const __m512i a = pairs(dots[0].raw, dots[1].raw), b = pairs(dots[2].raw, dots[3].raw);
  __m512i sum = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
  // Element 4 i + j: columns 64 j + 16 i.
  if (kGroup == 32) sum = _mm512_add_epi32(sum, _mm512_shuffle_i32x4(sum, sum, 0xb1));
  sums[0].raw = _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), sum);
#elif HWY_TARGET == HWY_AVX2
  HWY_UNROLL(2)
  for (int h = 0; h < 2; ++h) {
    const VI* d = dots + 4 * h;
    __m256i sum = _mm256_hadd_epi32(_mm256_hadd_epi32(d[0].raw, d[1].raw), _mm256_hadd_epi32(d[2].raw, d[3].raw));
    if (kGroup == 32) sum = _mm256_add_epi32(sum, _mm256_permute2x128_si256(sum, sum, 1));
    // Element 4 i + j: columns 32 j + 16 i.
    sums[h].raw = _mm256_permutevar8x32_epi32(sum, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  }
#elif RIDGE_NEON
  HWY_UNROLL(4)
  for (int j = 0; j < 4; ++j) {
    const VI* d = dots + 4 * j;
    const int32x4_t sum = vpaddq_s32(vpaddq_s32(d[0].raw, d[1].raw), vpaddq_s32(d[2].raw, d[3].raw));
    sums[j].raw = kGroup == 32 ? vaddq_s32(sum, vrev64q_s32(sum)) : sum;
  }
#else
  alignas(64) int32_t lanes[kChunk / 4], groups[kPartialSums];
  for (int64_t j = 0; j < kCodeVectors; ++j) hn::StoreU(dots[j], kI, lanes + j * kLanes);
  for (int64_t i = 0; i < kPartialSums; ++i) {
    const int64_t first = 16 * i / kGroup * kGroup / 4;
    groups[i] = 0;
    for (int64_t l = 0; l < kGroup / 4; ++l) groups[i] += lanes[first + l];
  }
  for (int64_t j = 0; j < kSumVectors; ++j) sums[j] = hn::LoadU(kI, groups + j * kLanes);
#endif
}

// Groups of 32 appear twice.
template <int kGroup>
HWY_INLINE float join(const VF (&sums)[kSumVectors]) {
#if HWY_TARGET == HWY_SCALAR
  alignas(64) float all[kPartialSums];
  for (int64_t j = 0; j < kSumVectors; ++j) hn::StoreU(sums[j], kF, all + j * kLanes);
  for (int step = kPartialSums / 2; step >= kGroup / 16; step /= 2)
    for (int i = 0; i < step; ++i) all[i] += all[i + step];
  return all[0];
#else
  VF all[kSumVectors];
  for (int64_t j = 0; j < kSumVectors; ++j) all[j] = sums[j];
  for (int64_t step = kSumVectors / 2; step > 0; step /= 2)
    for (int64_t j = 0; j < step; ++j) all[j] = hn::Add(all[j], all[j + step]);
  const auto fold = [](auto self, auto d, auto v) HWY_ATTR {
    if constexpr (hn::MaxLanes(d) * 16 == kGroup)
      return hn::GetLane(v);
    else {
      const hn::Half<decltype(d)> half;
      return self(self, half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
    }
  };
  return fold(fold, kF, all[0]);
#endif
}

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
