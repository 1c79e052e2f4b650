// Merges the splits of a tile in the last block to finish.
#pragma once

#include "kernels/cuda/attention/attention_tile.cuh"

namespace ridge::kernels::cuda {

// The splits to merge: `count` of every `step`, from `first` on. If not the result, their sum replaces the first
// split's.
struct MergedSplits {
  int ticket, first, step, count;
  bool is_result;
};

// True in the last block to arrive, which then sees what the others wrote.
template <typename Shape>
__device__ __forceinline__ bool is_last(const AttentionBlock<Shape>& block, const MergedSplits& splits) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) { // take_ticket is acquire-release; the barriers extend its order to the block
    const int tile_head = block.tile * block.args.cache.heads + block.kv_head;
    unsigned* ticket =
        &block.args.tickets[Shape::kMergesInGroups ? tile_head * kAttentionTickets + splits.ticket : tile_head];
    last = take_ticket(ticket) == static_cast<unsigned>(splits.count - 1);
    if (last) *ticket = 0;
  }
  __syncthreads();
  return last;
}

template <typename Shape>
class SplitMerge {
  static constexpr int kTileRows = Shape::kTileRows, kColumns = Shape::kColumnTiles,
                       kBatch = 8; // loads in flight per thread
  static constexpr bool kGroups = Shape::kMergesInGroups;
  using Batch = float4[kColumns][kBatch];
  static_assert(kMaxAttentionSplits <= 2 * kWarp &&
                kMaxAttentionSplits * kTileRows * 4 + kAttentionThreads * 16 <= sizeof(RoundOf<Shape>));
  using Shares = float (*)[kTileRows];

 public:
  __device__ __forceinline__ SplitMerge(const AttentionBlock<Shape>& block, const MergedSplits& splits)
      : block_(block), splits_(splits), parts_(block.parts() + (kGroups ? splits.first * block.part_size() : 0)),
        columns_(block.rows * lanes()), groups_(max(1, kAttentionThreads / columns_)),
        first_split_(threadIdx.x / columns_) {}

  // `dynamic`: at least the size of a round.
  __device__ __forceinline__ void run(void* dynamic) const {
    Batch batch;
    const bool takes_part = columns_ > kAttentionThreads || first_split_ < groups_;
    const int first_four = columns_ > kAttentionThreads ? threadIdx.x : threadIdx.x % columns_;
    if (takes_part) fetch(batch, first_four, groups_ == 1 ? 0 : first_split_);
    const auto share = reinterpret_cast<Shares>(dynamic);
    find_shares(share);
    __syncthreads();
    float4* sums = reinterpret_cast<float4*>(&share[kMaxAttentionSplits][0]);
#pragma unroll 1
    for (int i = takes_part ? first_four : columns_; i < columns_; i += kAttentionThreads * kColumns) {
      float4 four[kColumns] = {};
#pragma unroll 1
      for (int first = groups_ == 1 ? 0 : first_split_; first < count(); first += kBatch * groups_) {
        if (i != first_four || first >= groups_) fetch(batch, i, first);
#pragma unroll
        for (int j = 0; j < kColumns; ++j)
#pragma unroll
          for (int k = 0; k < kBatch; ++k)
            if (const int s = first + k * groups_, c = i + j * kAttentionThreads;
                s < count() && (j == 0 || c < columns_))
              add(four[j], batch[j][k], share[s][c / lanes()]);
      }
      if (groups_ == 1) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j)
          if (const int c = i + j * kAttentionThreads; j == 0 || c < columns_) store(c, four[j]);
      } else {
        sums[threadIdx.x] = four[0];
      }
    }
    if (groups_ > 1) {
      __syncthreads();
      if (const int i = threadIdx.x; i < columns_) {
        float4 four = sums[i];
        for (int k = 1; k < groups_; ++k) add(four, sums[i + k * columns_], 1);
        store(i, four);
      }
    }
  }

 private:
  __device__ __forceinline__ int lanes() const { return block_.width.get() / 4; }
  __device__ __forceinline__ int count() const { return kGroups ? splits_.count : block_.used_splits; }
  __device__ __forceinline__ bool is_result() const { return !kGroups || splits_.is_result; }
  __device__ __forceinline__ int64_t stride() const { // floats from one split to the next
    return kGroups ? splits_.step * block_.part_size() : block_.part_size();
  }
  static __device__ __forceinline__ void add(float4& sum, float4 x, float w) {
    sum.x += x.x * w, sum.y += x.y * w, sum.z += x.z * w, sum.w += x.w * w;
  }
  __device__ __forceinline__ void fetch(Batch& batch, int i, int first) const {
    const auto* from = reinterpret_cast<const float4*>(parts_ + 2 * kAttentionRows) + i;
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
#pragma unroll
      for (int k = 0; k < kBatch; ++k)
        if (const int s = first + k * groups_; s < count() && (j == 0 || i + j * kAttentionThreads < columns_))
          batch[j][k] = __ldcg(from + s * (stride() / 4) + j * kAttentionThreads);
  }
  __device__ __forceinline__ void store(int i, float4 four) const {
    if (!is_result()) return store_latest(parts_ + 2 * kAttentionRows + i * 4, four);
    if (Shape::kValueCodes && block_.args.cache.rotates_v()) four = rotated_quad(four);
    block_.store_result(i / lanes(), i % lanes() * 4, four);
  }
  __device__ __forceinline__ void find_shares(Shares share) const {
    const int lane = block_.lane, used_splits = count();
#pragma unroll 1
    for (int row = block_.warp; row < block_.rows; row += kAttentionWarps) {
      float largest[2], sum[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int s = lane + k * kWarp;
        largest[k] = s < used_splits ? __ldcg(parts_ + s * stride() + row) : -INFINITY;
        sum[k] = s < used_splits ? __ldcg(parts_ + s * stride() + kAttentionRows + row) : 0;
      }
      const float most = warp_reduce(fmaxf(largest[0], largest[1]), [](float a, float b) { return fmaxf(a, b); });
      // In a group perhaps no key is visible.
      const float reference = kGroups && most == -INFINITY ? 0 : most;
      float total = 0;
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        largest[k] = exp2_approx(largest[k] - reference);
        total += largest[k] * sum[k];
      }
      total = warp_sum(total);
      if (!is_result()) {
        if (lane == 0) parts_[row] = most, parts_[kAttentionRows + row] = total;
        total = 1;
      }
#pragma unroll
      for (int k = 0; k < 2; ++k)
        if (const int s = lane + k * kWarp; s < used_splits) share[s][row] = largest[k] / total;
    }
  }

  const AttentionBlock<Shape>& block_;
  MergedSplits splits_;
  float* parts_;
  int columns_;
  int groups_, first_split_;
};

// If this block is the last to arrive, merges the splits; else returns false. Wide heads merge in two levels of eight,
// because one block would otherwise read up to 64. `dynamic`: a round's size.
template <typename Shape>
__device__ __forceinline__ bool merge_splits(const AttentionBlock<Shape>& block, void* dynamic) {
  MergedSplits splits = {0, 0, 1, block.used_splits, true};
  if constexpr (!Shape::kMergesInGroups) {
    if (!is_last(block, splits)) return false;
    SplitMerge<Shape>(block, splits).run(dynamic);
    return true;
  } else {
    if (block.used_splits > kMergedSplits) {
      const int group = block.split / kMergedSplits, first = group * kMergedSplits;
      splits = {1 + group, first, 1, min(kMergedSplits, block.used_splits - first), false};
    }
#pragma unroll 1
    for (;;) {
      if (!is_last(block, splits)) return false;
      SplitMerge<Shape>(block, splits).run(dynamic);
      if (splits.is_result) return true;
      splits = {0, 0, kMergedSplits, (block.used_splits + kMergedSplits - 1) / kMergedSplits, true};
    }
  }
}

} // namespace ridge::kernels::cuda
