// Attention and writes to the KV cache.
//
// Queries of one KV head (tokens × heads of a group) traverse the cache together, 128 positions per pass: each element
// is converted once. For scores a vector holds 16 positions (hence key blocks), for values 16 dimensions, against a
// broadcast query element or probability. Only a row's maximum and total cross lanes.
#include "kernels/cpu/formats/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/simd/attention.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/simd/cache_rows-inl.h"

#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

inline constexpr int kScoreRows = kManyRegisters ? 8 : 4;
inline constexpr int kValueRows = kManyRegisters ? 4 : 2;
inline constexpr int kValueVectors = 4;
inline constexpr int kLatentRows = 4;
static_assert(kPositionTile >= 2 * kLanes && kAttentionBlock % kPositionTile == 0);

template <int kRows, core::KvType kType>
void score_tile(Keys<kType> k0, Keys<kType> k1, int64_t k_dim, const float* q, int64_t q_stride, float* scores) {
  VF sum[2][kRows];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) sum[0][r] = sum[1][r] = hn::Zero(kF);
  for (int64_t d = 0; d < k_dim; ++d) {
    const VF key0 = k0.load(d), key1 = k1.load(d);
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

template <int kRows, core::KvType kType>
int64_t score_rows(Keys<kType> k0, Keys<kType> k1, int64_t k_dim, const float* q, int64_t q_stride, float* scores,
                   int64_t row, int64_t rows) {
  for (; row + kRows <= rows; row += kRows)
    score_tile<kRows>(k0, k1, k_dim, q + row * q_stride, q_stride, scores + row * kAttentionBlock);
  return row;
}

// Writes whole tiles.
template <core::KvType kType>
void score_block(const AttentionTask& task, const float* q, int64_t q_stride, int64_t rows, int64_t first,
                 int64_t count, float* scores) {
  for (int64_t p = 0; p < count; p += 2 * kLanes) {
    const Keys<kType> k0(task.k, first + p, task.k_dim), k1(task.k, first + p + kLanes, task.k_dim);
    int64_t row = score_rows<kScoreRows>(k0, k1, task.k_dim, q, q_stride, scores + p, 0, rows);
    row = score_rows<kScoreRows / 2>(k0, k1, task.k_dim, q, q_stride, scores + p, row, rows);
    score_rows<1>(k0, k1, task.k_dim, q, q_stride, scores + p, row, rows);
  }
}

// A tile of keys in f32.
AttentionTask unpacked_keys(const AttentionTask& task, int64_t first) {
  const int64_t block_bytes = kKeyBlock * core::head_bytes(task.k_type, task.k_dim);
  for (int64_t p = 0; p < kPositionTile; p += kKeyBlock)
    unpack_keys(task.k + (first + p) / kKeyBlock * block_bytes, task.k_dim, task.k_type, task.tile + p * task.k_dim);
  AttentionTask unpacked = task;
  unpacked.k = reinterpret_cast<const std::byte*>(task.tile);
  return unpacked;
}

void score_unpacked(const AttentionTask& task, const float* q, int64_t q_stride, int64_t rows, int64_t first,
                    int64_t count, float* scores) {
  for (int64_t p = 0; p < count; p += kPositionTile)
    score_block<kF32>(unpacked_keys(task, first + p), q, q_stride, rows, 0, kPositionTile, scores + p);
}

// sums[r][d …) += Σ probability[r][p] * values[p][d …)
template <int kRows, int kVectors, core::KvType kType>
void value_tile(Values<kType> values, int64_t d, int64_t stride, int64_t count, const float* probabilities,
                float* sums) {
  VF sum[kRows][kVectors];
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) HWY_UNROLL(4)
  for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::LoadU(kF, sums + r * stride + v * kLanes);
  for (int64_t p = 0; p < count; ++p) {
    VF value[kVectors];
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) value[v] = values.load(p, d + v * kLanes);
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

template <int kVectors, core::KvType kType>
void value_rows(Values<kType> values, int64_t d, int64_t stride, int64_t count, const float* probabilities, float* sums,
                int64_t rows) {
  int64_t row = 0;
  for (; row + kValueRows <= rows; row += kValueRows)
    value_tile<kValueRows, kVectors>(values, d, stride, count, probabilities + row * kAttentionBlock,
                                     sums + row * stride);
  for (; row < rows; ++row)
    value_tile<1, kVectors>(values, d, stride, count, probabilities + row * kAttentionBlock, sums + row * stride);
}

template <core::KvType kType>
void value_block(const AttentionTask& task, int64_t stride, int64_t rows, int64_t first, int64_t count,
                 const float* probabilities, float* sums) {
  const Values<kType> values(task.v, first, stride);
  int64_t d = 0;
  for (; d + kValueVectors * kLanes <= stride; d += kValueVectors * kLanes)
    value_rows<kValueVectors>(values, d, stride, count, probabilities, sums + d, rows);
  for (; d < stride; d += kLanes) value_rows<1>(values, d, stride, count, probabilities, sums + d, rows);
}

void value_unpacked(const AttentionTask& task, int64_t stride, int64_t rows, int64_t first, int64_t count,
                    const float* probabilities, float* sums) {
  AttentionTask unpacked = task;
  unpacked.v = reinterpret_cast<const std::byte*>(task.tile);
  for (int64_t p = 0; p < count; p += kPositionTile) {
    const int64_t length = std::min(kPositionTile, count - p);
    for (int64_t i = 0; i < length; ++i)
      unpack_values(task.v + (first + p + i) * core::head_bytes(task.v_type, stride), stride, task.v_type,
                    task.tile + i * stride);
    value_block<kF32>(unpacked, stride, rows, 0, length, probabilities + p, sums);
  }
}

// sums[r][d] += Σ probability[r][p] * key[p][d], d < v_dim; crosses lanes.
template <int kRows, core::KvType kType>
void latent_tile(const AttentionTask& task, int64_t first, int64_t count, const float* probabilities, float* sums,
                 int64_t stride) {
  const int64_t whole = count / kLanes * kLanes;
  const auto rest = hn::FirstN(kF, count - whole); // what follows may be NaN
  for (int64_t d = 0; d < task.v_dim; ++d) {
    VF sum[kRows];
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) sum[r] = hn::Zero(kF);
    const auto add = [&](VF value, int64_t p) HWY_ATTR {
      HWY_UNROLL(4)
      for (int r = 0; r < kRows; ++r)
        sum[r] = hn::MulAdd(value, hn::LoadU(kF, probabilities + r * kAttentionBlock + p), sum[r]);
    };
    for (int64_t p = 0; p < whole; p += kLanes) add(Keys<kType>(task.k, first + p, task.k_dim).load(d), p);
    if (whole < count) add(hn::IfThenElseZero(rest, Keys<kType>(task.k, first + whole, task.k_dim).load(d)), whole);
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) sums[r * stride + d] += sum_of(sum[r]);
  }
}

template <core::KvType kType>
void latent_block(const AttentionTask& task, int64_t stride, int64_t rows, int64_t first, int64_t count,
                  const float* probabilities, float* sums) {
  int64_t row = 0;
  for (; row + kLatentRows <= rows; row += kLatentRows)
    latent_tile<kLatentRows, kType>(task, first, count, probabilities + row * kAttentionBlock, sums + row * stride,
                                    stride);
  for (; row < rows; ++row)
    latent_tile<1, kType>(task, first, count, probabilities + row * kAttentionBlock, sums + row * stride, stride);
}

void latent_unpacked(const AttentionTask& task, int64_t stride, int64_t rows, int64_t first, int64_t count,
                     const float* probabilities, float* sums) {
  for (int64_t p = 0; p < count; p += kPositionTile)
    latent_block<kF32>(unpacked_keys(task, first + p), stride, rows, 0, std::min(kPositionTile, count - p),
                       probabilities + p, sums);
}

// exp(score − maximum), padding 0; returns the sum.
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

template <typename Function>
Function with_type(core::KvType type, Function f16, Function f32, Function q8_0, Function unpacked) {
  return type == kF16 ? f16 : type == kF32 ? f32 : type == kQ8 ? q8_0 : unpacked;
}

HWY_INLINE void cap_scores(float* scores, int64_t padded, float soft_cap) {
  const VF cap = hn::Set(kF, soft_cap), inverse = hn::Set(kF, 1 / soft_cap);
  for (int64_t p = 0; p < padded; p += kLanes)
    hn::StoreU(hn::Mul(cap, hn::Tanh(kF, hn::Mul(hn::LoadU(kF, scores + p), inverse))), kF, scores + p);
}

void attend(const AttentionTask& task) {
  const core::AttentionParams& params = *task.params;
  const int64_t rows = task.tokens * task.group;
  const int64_t q_stride = round_up(task.k_dim, 16), v_stride = round_up(task.v_dim, 16);
  float* q = task.scratch;
  float* sums = q + rows * q_stride;
  float* scores = sums + rows * v_stride;
  float* maximum = scores + rows * kAttentionBlock;
  float* total = maximum + rows;
  const bool rotates_keys = core::is_rotated(task.k_type),
             rotates_values = core::is_rotated(task.v ? task.v_type : task.k_type);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t token = r / task.group, head = r % task.group, rest_dim = task.k_dim - task.q_dim;
    const float* in = task.q + token * task.q_stride + head * task.q_dim;
    for (int64_t d = 0; d < task.q_dim; ++d) q[r * q_stride + d] = in[d] * params.scale;
    const float* rest = task.q_rest + token * task.q_rest_stride + head * rest_dim;
    for (int64_t d = 0; d < rest_dim; ++d) q[r * q_stride + task.q_dim + d] = rest[d] * params.scale;
    if (rotates_keys) core::rotate_blocks(q + r * q_stride, task.k_dim);
    // A sink is a first score without a value.
    maximum[r] = task.sinks ? task.sinks[head] : -std::numeric_limits<float>::infinity();
    total[r] = task.sinks ? 1 : 0;
  }
  std::fill_n(sums, rows * v_stride, 0.0f);

  const bool sees_block = task.block_end > 0 && (params.in_blocks || (params.causal && params.block_ahead));
  const auto end_seen = [&](int64_t position) {
    return sees_block ? task.block_end : params.end_seen(position, task.end);
  };
  const auto first_seen = [&](int64_t position) {
    return params.in_blocks ? task.block_first : params.first_seen(position);
  };
  const int64_t end = end_seen(task.first_position + task.tokens - 1);
  const int64_t seen = first_seen(task.first_position);
  // Passes start at multiples of 128 for every query and ring size. A ring may split a pass.
  int64_t count = 0;
  const auto for_pieces = [&](int64_t first, int64_t end, const auto& run) { // run(offset, row, rows)
    for (int64_t at = 0, length; at < end; at += length) {
      const int64_t row = task.ring > 0 ? (first + at) % task.ring : first + at;
      length = task.ring > 0 ? std::min(end - at, task.ring - row) : end;
      run(at, row, length);
    }
  };
  for (int64_t first = seen / kAttentionBlock * kAttentionBlock; first < end; first += count) {
    count = std::min(kAttentionBlock, end - first);
    const int64_t padded = round_up(count, kPositionTile);
    const auto score = with_type(task.k_type, score_block<kF16>, score_block<kF32>, score_block<kQ8>, score_unpacked);
    for_pieces(first, padded, [&](int64_t at, int64_t row, int64_t length) {
      score(task, q, q_stride, rows, row, length, scores + at);
    });
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t position = task.first_position + r / task.group;
      const int64_t valid = std::clamp<int64_t>(end_seen(position) - first, 0, count);
      const int64_t hidden = std::clamp<int64_t>(first_seen(position) - first, 0, valid);
      float* row = scores + r * kAttentionBlock;
      if (params.soft_cap > 0) cap_scores(row, padded, params.soft_cap);
      if (params.max_bias > 0) {
        const float slope = core::alibi_slope(params.max_bias, static_cast<int>(params.heads),
                                              static_cast<int>(task.first_head + r % task.group));
        for (int64_t p = 0; p < valid; ++p) row[p] -= slope * static_cast<float>(std::abs(position - first - p));
      }
      if (task.biases) {
        const float* biases = task.biases + r % task.group * (2 * params.reach + 1);
        for (int64_t p = 0; p < valid; ++p) row[p] += biases[params.bias_at(position, first + p)];
      }
      std::fill_n(row, hidden, -std::numeric_limits<float>::infinity());
      if (hidden > 0 && hidden == valid) {
        std::fill_n(row, padded, 0.0f);
        continue;
      }
      const float larger = std::max(maximum[r], maximum_of(row, valid));
      if (larger > maximum[r] && total[r] > 0) {
        const float factor = std::exp(maximum[r] - larger);
        total[r] *= factor;
        for (int64_t d = 0; d < v_stride; ++d) sums[r * v_stride + d] *= factor;
      }
      maximum[r] = larger;
      total[r] += exponentiate(row, valid, padded, larger);
    }
    const auto add_values =
        task.v ? with_type(task.v_type, value_block<kF16>, value_block<kF32>, value_block<kQ8>, value_unpacked)
               : with_type(task.k_type, latent_block<kF16>, latent_block<kF32>, latent_block<kQ8>, latent_unpacked);
    for_pieces(first, count, [&](int64_t at, int64_t row, int64_t length) {
      add_values(task, v_stride, rows, row, length, scores + at, sums);
    });
  }

  for (int64_t r = 0; r < rows; ++r) {
    float* out = task.out + r / task.group * task.out_stride + r % task.group * task.v_dim;
    for (int64_t d = 0; d < task.v_dim; ++d) out[d] = sums[r * v_stride + d] / total[r];
    if (rotates_values) core::rotate_blocks(out, task.v_dim);
  }
}

void index_scores(const AttentionTask& task, const float* weights, float* out) {
  const int64_t rows = task.group, end = task.first_position + 1;
  const float* q = task.q;
  if (core::is_rotated(task.k_type)) {
    float* rotated = task.scratch + rows * kAttentionBlock;
    std::copy_n(q, rows * task.k_dim, rotated);
    core::rotate_blocks(rotated, rows * task.k_dim);
    q = rotated;
  }
  for (int64_t first = 0; first < end; first += kAttentionBlock) {
    const int64_t padded = round_up(std::min(kAttentionBlock, end - first), kPositionTile);
    with_type(task.k_type, score_block<kF16>, score_block<kF32>, score_block<kQ8>,
              score_unpacked)(task, q, task.k_dim, rows, first, padded, task.scratch);
    for (int64_t p = 0; p < padded; p += kLanes) {
      VF sum = hn::Zero(kF);
      for (int64_t r = 0; r < rows; ++r)
        sum = hn::MulAdd(hn::Set(kF, weights[r]),
                         hn::Max(hn::LoadU(kF, task.scratch + r * kAttentionBlock + p), hn::Zero(kF)), sum);
      hn::StoreU(sum, kF, out + first + p);
    }
  }
}

const AttentionKernels* table() {
  static constexpr AttentionKernels kTable = {store_key, store_value, attend, copy_key, index_scores};
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
