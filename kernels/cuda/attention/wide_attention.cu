// Attention for heads of 512 over f16 caches, too wide for attention.cu's registers. In a round of 32 keys each warp
// multiplies 64 dimensions, then makes the weights of two rows from the warps' sums, then 64 output columns. The next
// round is in flight meanwhile; keys of earlier steps are fetched before the wait. A second kernel merges splits
// (column_merge.cuh).
#include "kernels/cuda/attention/attention_tile.cuh"
#include "kernels/cuda/attention/column_merge.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

constexpr int kDim = 512, kKeys = 32;
constexpr int kShare = kDim / kAttentionWarps;
constexpr int kPadded = kDim + 8; // halves; against bank conflicts
using Shape = AttentionShape<kDim, false, false, false, 2, NewTokens::stored>;

struct Round {
  __align__(16) __half keys[kKeys][kPadded];
  __align__(16) __half values[kKeys][kPadded];
};
struct Shared {
  Round rounds[2];
  union {
    __align__(16) __half queries[kAttentionRows][kPadded]; // until they are in registers
    __align__(16) float scores[kAttentionWarps][kAttentionRows][kKeys + 4];
  };
  __align__(16) __half weights[kAttentionRows][kKeys + 8];
  float rescale_factor[kAttentionRows], largest[kAttentionRows], sums[kAttentionRows];
};

__device__ __forceinline__ void fetch(Round& round, const AttentionBlock<Shape>& block, int first) {
  const Cache& cache = block.args.cache;
  constexpr int kPieces = kDim / 8;
  for (int i = threadIdx.x; i < kKeys * kPieces; i += kAttentionThreads) {
    const int row = i / kPieces, column = i % kPieces * 8, key = first + row;
    const int64_t at = (block.head_at + block.row_of(min(key, block.end - 1))) * kDim + column;
    copy_async_16_or_zeros(&round.keys[row][column], static_cast<const __half*>(cache.k) + at, key < block.end);
    copy_async_16_or_zeros(&round.values[row][column], static_cast<const __half*>(cache.v) + at, key < block.end);
  }
  copy_async_commit();
}

// A lane's two of the 32 scores of row 2 * warp + lane / 16.
class RowSoftmax {
 public:
  __device__ __forceinline__ explicit RowSoftmax(const AttentionBlock<Shape>& block)
      : row_(2 * block.warp + block.lane / 16), at_(block.lane % 16 * 2), cap_(block.args.soft_cap * kLog2e) {
    const AttentionArgs& args = block.args;
    visible_ =
        row_ < block.rows ? min(block.end, args.positions[block.first_token + block.token_of(row_)] + 1) : block.end;
    if (!args.sinks || block.split > 0 || row_ >= block.rows) return;
    largest_ = args.sinks[block.kv_head * block.group + block.head_of(row_)] * kLog2e;
    sum_ = 1;
  }
  // From the warps' partial scores to weights of keys [first, first + 32).
  __device__ __forceinline__ void run(Shared& shared, int first) {
    float s[2] = {};
#pragma unroll
    for (int w = 0; w < kAttentionWarps; ++w)
#pragma unroll
      for (int i = 0; i < 2; ++i) s[i] += shared.scores[w][row_][at_ + i];
    float most = largest_;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (cap_ > 0) s[i] = cap_ - 2 * cap_ * reciprocal(exp2_approx(s[i] * (2 * kLog2e / cap_)) + 1);
      if (first + at_ + i >= visible_) s[i] = -INFINITY;
      most = fmaxf(most, s[i]);
    }
    for (int lanes = 1; lanes < 16; lanes *= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, lanes));
    const float reference = most == -INFINITY ? 0 : most, rescale_factor = exp2_approx(largest_ - reference);
    const float a = exp2_approx(s[0] - reference), b = exp2_approx(s[1] - reference);
    float sum = a + b;
    for (int lanes = 1; lanes < 16; lanes *= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
    largest_ = most;
    sum_ = sum_ * rescale_factor + sum;
    *reinterpret_cast<uint32_t*>(&shared.weights[row_][at_]) = pack_half2(a, b);
    if (at_ == 0)
      shared.rescale_factor[row_] = rescale_factor, shared.largest[row_] = largest_, shared.sums[row_] = sum_;
  }

 private:
  int row_, at_;
  float cap_;
  int visible_;
  float largest_ = -INFINITY, sum_ = 0;
};

// In log2 units; zeros in rows that the tile lacks.
__device__ __forceinline__ void store_queries(Shared& shared, const AttentionBlock<Shape>& block) {
  const AttentionArgs& args = block.args;
  const float scale = args.scale * kLog2e;
  for (int i = threadIdx.x; i < kAttentionRows * kDim / 4; i += kAttentionThreads) {
    const int row = i / (kDim / 4), column = i % (kDim / 4) * 4;
    float4 q = {};
    if (row < block.rows)
      q = *reinterpret_cast<const float4*>(args.q +
                                           (int64_t{block.first_token + block.token_of(row)} * args.heads +
                                            block.kv_head * block.group + block.head_of(row)) *
                                               kDim +
                                           column);
    *reinterpret_cast<uint2*>(&shared.queries[row][column]) = {pack_half2(q.x * scale, q.y * scale),
                                                               pack_half2(q.z * scale, q.w * scale)};
  }
}

__global__ void __launch_bounds__(kAttentionThreads, 1)
    wide_attention_kernel(const __grid_constant__ AttentionArgs args) {
  extern __shared__ uint4 dynamic[];
  Shared& shared = *reinterpret_cast<Shared*>(dynamic);
  AttentionBlock<Shape> block(args);
  const OverlappingWork work(args.stamps);
  const int64_t stream = args.streams[block.first_token];
  if (!block.take_split(stream, args.positions[block.first_token + block.tokens - 1] + 1)) return work.wait();
  const bool old_keys = args.tokens == 1 && block.end < block.length; // none of this step
  if (!old_keys) work.wait();
  fetch(shared.rounds[0], block, block.begin);
  fetch(shared.rounds[1], block, block.begin + kKeys);
  if (old_keys) work.wait();
  store_queries(shared, block);
  __syncthreads();

  const int lane = block.lane, warp = block.warp, g = block.g, t = block.t;
  uint32_t query[kShare / 16][4];
#pragma unroll
  for (int k = 0; k < kShare / 16; ++k)
    load_matrix_x4(query[k], &shared.queries[lane % 16][kShare * warp + 16 * k + lane / 16 * 8]);
  RowSoftmax softmax(block);
  float out[kShare / 8][4] = {};
  int stage = 0;
#pragma unroll 1
  for (int first = block.begin; first < block.end; first += kKeys, stage ^= 1) {
    const Round& round = shared.rounds[stage];
    const bool is_first = first == block.begin;
    if (is_first && first + kKeys < block.end)
      copy_async_wait<1>(); // the second may be in flight
    else
      copy_async_wait<0>();
    __syncthreads(); // the round is there; nothing reads the previous one or the queries
    if (!is_first && first + kKeys < block.end) fetch(shared.rounds[stage ^ 1], block, first + kKeys);

    float score[kKeys / 8][4] = {};
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int k = 0; k < kShare / 16; k += 2) {
        uint32_t keys[4];
        load_matrix_x4(keys, &round.keys[8 * n + lane % 8][kShare * warp + 16 * k + lane / 8 * 8]);
        mma_16x8x16(score[n], query[k], keys[0], keys[1]);
        mma_16x8x16(score[n], query[k + 1], keys[2], keys[3]);
      }
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<float2*>(&shared.scores[warp][g + 8 * half][8 * n + 2 * t]) = {score[n][2 * half],
                                                                                         score[n][2 * half + 1]};
    __syncthreads();
    softmax.run(shared, first);
    __syncthreads();

    const float rescale_factor[2] = {shared.rescale_factor[g], shared.rescale_factor[g + 8]};
#pragma unroll
    for (auto& tile : out)
#pragma unroll
      for (int i = 0; i < 4; ++i) tile[i] *= rescale_factor[i / 2];
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      uint32_t weights[4];
      load_matrix_x4(weights, &shared.weights[lane % 16][16 * k + lane / 16 * 8]);
#pragma unroll
      for (int n = 0; n < kShare / 8; n += 2) {
        uint32_t values[4];
        load_matrix_transposed_x4(values, &round.values[16 * k + lane % 16][kShare * warp + 8 * n + lane / 16 * 8]);
        mma_16x8x16(out[n], weights, values[0], values[1]);
        mma_16x8x16(out[n + 1], weights, values[2], values[3]);
      }
    }
  }

  float* part = block.parts() + block.split * block.part_size();
  const bool alone = block.used_splits == 1;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = g + 8 * half;
    if (row >= block.rows) continue;
    const float by = alone ? 1 / shared.sums[row] : 1;
    float* to = (alone ? block.result(row) : part + 2 * kAttentionRows + row * kDim) + kShare * warp + 2 * t;
#pragma unroll
    for (int n = 0; n < kShare / 8; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) store_latest(to + 8 * n + i, out[n][2 * half + i] * by);
  }
  if (alone) return;
  if (const int row = threadIdx.x; row < block.rows)
    part[row] = shared.largest[row], part[kAttentionRows + row] = shared.sums[row];
}

__global__ void __launch_bounds__(kMergeThreads) wide_merge_kernel(const __grid_constant__ AttentionArgs args) {
  constexpr int kPieces = kDim / kMergedColumns;
  AttentionBlock<Shape> block(args);
  const OverlappingWork work(args.stamps);
  block.take_split(args.streams[block.first_token], args.positions[block.first_token + block.tokens - 1] + 1);
  work.wait();
  const int row = blockIdx.y / kPieces, piece = blockIdx.y % kPieces;
  if (block.used_splits == 1 || row >= block.rows) return;
  merge_columns({block.parts(), block.used_splits, kAttentionRows, kDim}, row, kMergedColumns * piece,
                block.result(row));
}

} // namespace

bool wide_attention(const Cache& cache, const ChipLimits& chip) {
  return cache.k_dim == kDim && cache.v_dim == kDim && cache.k_half && cache.v_half &&
         chip.shared_per_block >= static_cast<int>(sizeof(Shared)) + 1024;
}

void launch_wide_attention(const Launch& launch, AttentionArgs args) {
  allow_dynamic_shared_memory(wide_attention_kernel, sizeof(Shared));
  const int tiles = (args.tokens + args.tile_tokens - 1) / args.tile_tokens, heads = args.cache.heads;
  if (args.splits == kMaxAttentionSplits) // the narrower kernels' limit
    args.splits = std::clamp(launch.sm_count / (tiles * heads), kMaxAttentionSplits, kMaxMergedSplits);
  launch(wide_attention_kernel, dim3(heads, args.splits, tiles), kAttentionThreads, sizeof(Shared), args);
  if (args.splits == 1) return;
  args.stamps = launch.stamps();
  launch(wide_merge_kernel, dim3(heads, kAttentionRows * (kDim / kMergedColumns), tiles), kMergeThreads, 0, args);
}

} // namespace ridge::kernels::cuda
