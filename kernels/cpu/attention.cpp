// Attention over the KV cache, and how the cache is laid out and written.
//
// The queries that share a KV head, several tokens times the heads of its group, go through the cache together, 128
// positions at a time with an online softmax, so that each cached element is loaded and converted once for all of them.
// Scores: a vector holds 16 positions and the query's element is broadcast (hence the blocked keys). Values: a vector
// holds 16 dimensions and the probability is broadcast. Nothing is summed across lanes but a row's maximum and total.
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cpp"
#include <hwy/foreach_target.h>

#include "core/half.h"
#include "kernels/cpu/simd-inl.h"

#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace { // compiled for several instruction sets: nothing may be merged with a twin

inline constexpr int kScoreRows = RIDGE_WIDE ? 8 : 4; // queries per tile
inline constexpr int kValueRows = RIDGE_WIDE ? 4 : 2;
inline constexpr int kValueVectors = 4;
static_assert(kPositionTile >= 2 * kLanes && kAttentionBlock % kPositionTile == 0);

HWY_INLINE VF load_cached(const float* p) { return load_float(p); }
HWY_INLINE VF load_cached(const uint16_t* p) { return load_half(p); }

// scores[r][0, 2 vectors) = q[r] · keys, for two vectors of positions. `k0`, `k1`: [k_dim][16].
template <int kRows, typename Cached>
void score_tile(const Cached* k0, const Cached* k1, int64_t k_dim, const float* q, int64_t q_stride, float* scores) {
  VF sum[2][kRows];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) sum[0][r] = sum[1][r] = hn::Zero(kF);
  for (int64_t d = 0; d < k_dim; ++d) {
    const VF key0 = load_cached(k0 + d * kKeyBlock), key1 = load_cached(k1 + d * kKeyBlock);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const VF element = hn::Set(kF, q[r * q_stride + d]);
      sum[0][r] = hn::MulAdd(key0, element, sum[0][r]);
      sum[1][r] = hn::MulAdd(key1, element, sum[1][r]);
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    hn::StoreU(sum[0][r], kF, scores + r * kAttentionBlock);
    hn::StoreU(sum[1][r], kF, scores + r * kAttentionBlock + kLanes);
  }
}

template <int kRows, typename Cached>
int64_t score_rows(const Cached* k0, const Cached* k1, int64_t k_dim, const float* q, int64_t q_stride, float* scores,
                   int64_t row, int64_t rows) {
  for (; row + kRows <= rows; row += kRows)
    score_tile<kRows>(k0, k1, k_dim, q + row * q_stride, q_stride, scores + row * kAttentionBlock);
  return row;
}

// Scores of all rows for positions [first, first + count); writes whole tiles.
template <typename Cached>
void score_block(const AttentionTask& task, const float* q, int64_t q_stride, int64_t rows, int64_t first,
                 int64_t count, float* scores) {
  const auto* keys = reinterpret_cast<const Cached*>(task.k);
  const auto vector_at = [&](int64_t p)
                             HWY_ATTR { return keys + p / kKeyBlock * kKeyBlock * task.k_dim + p % kKeyBlock; };
  for (int64_t p = 0; p < count; p += 2 * kLanes) {
    const Cached *k0 = vector_at(first + p), *k1 = vector_at(first + p + kLanes);
    int64_t row = score_rows<kScoreRows>(k0, k1, task.k_dim, q, q_stride, scores + p, 0, rows);
    row = score_rows<kScoreRows / 2>(k0, k1, task.k_dim, q, q_stride, scores + p, row, rows);
    score_rows<1>(k0, k1, task.k_dim, q, q_stride, scores + p, row, rows);
  }
}

// sums[r][0, kVectors) += Σ probability[r][p] * values[p]
template <int kRows, int kVectors, typename Cached>
void value_tile(const Cached* values, int64_t stride, int64_t count, const float* probabilities, float* sums) {
  VF sum[kRows][kVectors];
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) HWY_UNROLL(4)
  for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::LoadU(kF, sums + r * stride + v * kLanes);
  for (int64_t p = 0; p < count; ++p) {
    VF value[kVectors];
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) value[v] = load_cached(values + p * stride + v * kLanes);
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
      const VF probability = hn::Set(kF, probabilities[r * kAttentionBlock + p]);
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(value[v], probability, sum[r][v]);
    }
  }
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) HWY_UNROLL(4)
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[r][v], kF, sums + r * stride + v * kLanes);
}

template <int kVectors, typename Cached>
void value_rows(const Cached* values, int64_t stride, int64_t count, const float* probabilities, float* sums,
                int64_t rows) {
  int64_t row = 0;
  for (; row + kValueRows <= rows; row += kValueRows)
    value_tile<kValueRows, kVectors>(values, stride, count, probabilities + row * kAttentionBlock, sums + row * stride);
  for (; row < rows; ++row)
    value_tile<1, kVectors>(values, stride, count, probabilities + row * kAttentionBlock, sums + row * stride);
}

template <typename Cached>
void value_block(const AttentionTask& task, int64_t stride, int64_t rows, int64_t first, int64_t count,
                 const float* probabilities, float* sums) {
  const Cached* values = reinterpret_cast<const Cached*>(task.v) + first * stride;
  int64_t d = 0;
  for (; d + kValueVectors * kLanes <= stride; d += kValueVectors * kLanes)
    value_rows<kValueVectors>(values + d, stride, count, probabilities, sums + d, rows);
  for (; d < stride; d += kLanes) value_rows<1>(values + d, stride, count, probabilities, sums + d, rows);
}

// Turns `valid` scores into exp(score − maximum), the rest of `padded` into 0; returns their sum.
HWY_INLINE float exponentiate(float* scores, int64_t valid, int64_t padded, float maximum) {
  const VF shift = hn::Set(kF, maximum);
  VF sum = hn::Zero(kF);
  for (int64_t p = valid; p < padded; ++p) scores[p] = -std::numeric_limits<float>::infinity();
  for (int64_t p = 0; p < padded; p += kLanes) {
    const VF e = hn::Exp(kF, hn::Sub(hn::LoadU(kF, scores + p), shift));
    hn::StoreU(e, kF, scores + p);
    sum = hn::Add(sum, e);
  }
  return sum_of(sum);
}

HWY_INLINE float maximum_of(const float* scores, int64_t count) {
  VF largest = hn::Set(kF, -std::numeric_limits<float>::infinity());
  int64_t p = 0;
  for (; p + kLanes <= count; p += kLanes) largest = hn::Max(largest, hn::LoadU(kF, scores + p));
  float maximum = max_of(largest);
  for (; p < count; ++p) maximum = std::max(maximum, scores[p]);
  return maximum;
}

void attend(const AttentionTask& task) {
  const int64_t rows = task.tokens * task.group;
  const int64_t q_stride = round_up(task.k_dim, 16), v_stride = round_up(task.v_dim, 16);
  float* q = task.scratch;
  float* sums = q + rows * q_stride;
  float* scores = sums + rows * v_stride;
  float* maximum = scores + rows * kAttentionBlock;
  float* total = maximum + rows;
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = task.q + r / task.group * task.q_stride + r % task.group * task.k_dim;
    for (int64_t d = 0; d < task.k_dim; ++d) q[r * q_stride + d] = in[d] * task.scale;
    maximum[r] = -std::numeric_limits<float>::infinity();
    total[r] = 0;
  }
  std::fill_n(sums, rows * v_stride, 0.0f);

  const int64_t end = task.first_position + task.tokens;
  for (int64_t first = 0; first < end; first += kAttentionBlock) {
    const int64_t count = std::min(kAttentionBlock, end - first);
    const int64_t padded = round_up(count, kPositionTile);
    (task.k_half ? score_block<uint16_t> : score_block<float>)(task, q, q_stride, rows, first, padded, scores);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t valid = std::clamp<int64_t>(task.first_position + r / task.group + 1 - first, 0, count);
      float* row = scores + r * kAttentionBlock;
      const float larger = std::max(maximum[r], maximum_of(row, valid));
      if (larger > maximum[r] && total[r] > 0) {
        const float factor = std::exp(maximum[r] - larger);
        total[r] *= factor;
        for (int64_t d = 0; d < v_stride; ++d) sums[r * v_stride + d] *= factor;
      }
      maximum[r] = larger;
      total[r] += exponentiate(row, valid, padded, larger);
    }
    (task.v_half ? value_block<uint16_t> : value_block<float>)(task, v_stride, rows, first, count, scores, sums);
  }

  for (int64_t r = 0; r < rows; ++r) {
    float* out = task.out + r / task.group * task.out_stride + r % task.group * task.v_dim;
    for (int64_t d = 0; d < task.v_dim; ++d) out[d] = sums[r * v_stride + d] / total[r];
  }
}

void store_key(const float* key, int64_t k_dim, int64_t position, bool half, std::byte* blocks) {
  const int64_t first = position / kKeyBlock * kKeyBlock * k_dim + position % kKeyBlock;
  if (half) {
    auto* out = reinterpret_cast<uint16_t*>(blocks) + first;
    for (int64_t d = 0; d < k_dim; ++d) out[d * kKeyBlock] = core::f16_from_f32(key[d]);
  } else {
    auto* out = reinterpret_cast<float*>(blocks) + first;
    for (int64_t d = 0; d < k_dim; ++d) out[d * kKeyBlock] = key[d];
  }
}

void store_value(const float* value, int64_t v_dim, int64_t position, bool half, std::byte* rows) {
  const int64_t first = position * round_up(v_dim, 16);
  if (half) {
    auto* out = reinterpret_cast<uint16_t*>(rows) + first;
    for (int64_t d = 0; d < v_dim; ++d) out[d] = core::f16_from_f32(value[d]);
  } else {
    std::copy_n(value, v_dim, reinterpret_cast<float*>(rows) + first);
  }
}

const AttentionKernels* table() {
  static constexpr AttentionKernels kTable = {store_key, store_value, attend};
  return &kTable;
}

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::kernels::cpu {
HWY_EXPORT(table);
const AttentionKernels& attention_kernels() { return *HWY_DYNAMIC_DISPATCH(table)(); }
} // namespace ridge::kernels::cpu
#endif
