// Where several blocks share a tile's context: the last one to finish combines their outputs.
#pragma once

#include "kernels/cuda/attention/attention_tile.cuh"

namespace ridge::kernels::cuda {

// Whether this block is the last of its tile's to come here. Then it sees what the others wrote.
template <typename Shape>
__device__ __forceinline__ bool is_last_split(const AttentionBlock<Shape>& block) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) { // for the block: the barriers pass on what the ticket orders
    unsigned* ticket = &block.args.tickets[block.tile * block.args.cache.heads + block.kv_head];
    last = take_ticket(ticket) == static_cast<unsigned>(block.used_splits - 1);
    if (last) *ticket = 0;
  }
  __syncthreads();
  return last;
}

// Adds up the splits' outputs, each times its share. Where there are more threads than outputs, some take every second,
// third … split.
template <typename Shape>
class SplitMerge {
  static constexpr int kLanes = Shape::kLanes, kTileRows = Shape::kTileRows,
                       kBatch = 8; // of a thread's loads in flight
  static constexpr int64_t kPartFloats = part_floats(Shape::kDim);
  static_assert(kMaxAttentionSplits <= 2 * kWarp &&
                kMaxAttentionSplits * kTileRows * 4 + kAttentionThreads * 16 <= sizeof(RoundOf<Shape>));
  using Shares = float (*)[kTileRows]; // [splits][rows]

 public:
  __device__ __forceinline__ explicit SplitMerge(const AttentionBlock<Shape>& block)
      : block_(block), parts_(block.parts()), columns_(block.rows * kLanes),
        groups_(max(1, kAttentionThreads / columns_)), first_split_(threadIdx.x / columns_) {}

  // `dynamic`: of the size of a round.
  __device__ __forceinline__ void run(void* dynamic) const {
    float4 batch[kBatch];
    const bool takes_part = columns_ > kAttentionThreads || first_split_ < groups_;
    const int first_four = columns_ > kAttentionThreads ? threadIdx.x : threadIdx.x % columns_;
    if (takes_part) fetch(batch, first_four, groups_ == 1 ? 0 : first_split_);
    const auto share = reinterpret_cast<Shares>(dynamic);
    find_shares(share);
    __syncthreads();
    float4* sums = reinterpret_cast<float4*>(&share[kMaxAttentionSplits][0]); // of the groups
#pragma unroll 1
    for (int i = takes_part ? first_four : columns_; i < columns_; i += kAttentionThreads) {
      float4 four = {};
#pragma unroll 1
      for (int first = groups_ == 1 ? 0 : first_split_; first < block_.used_splits; first += kBatch * groups_) {
        if (i != first_four || first >= groups_) fetch(batch, i, first);
#pragma unroll
        for (int k = 0; k < kBatch; ++k)
          if (const int s = first + k * groups_; s < block_.used_splits) add(four, batch[k], share[s][i / kLanes]);
      }
      if (groups_ == 1)
        store_latest(block_.result(i / kLanes) + i % kLanes * 4, four);
      else
        sums[threadIdx.x] = four;
    }
    if (groups_ > 1) {
      __syncthreads();
      if (const int i = threadIdx.x; i < columns_) {
        float4 four = sums[i];
        for (int k = 1; k < groups_; ++k) add(four, sums[i + k * columns_], 1);
        store_latest(block_.result(i / kLanes) + i % kLanes * 4, four);
      }
    }
  }

 private:
  static __device__ __forceinline__ void add(float4& sum, float4 x, float w) {
    sum.x += x.x * w, sum.y += x.y * w, sum.z += x.z * w, sum.w += x.w * w;
  }
  __device__ __forceinline__ void fetch(float4 (&batch)[kBatch], int i, int first) const {
    const auto* from = reinterpret_cast<const float4*>(parts_ + 2 * kAttentionRows) + i;
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
      if (const int s = first + k * groups_; s < block_.used_splits) batch[k] = __ldcg(from + s * (kPartFloats / 4));
  }
  // What each split's outputs are multiplied by, per row.
  __device__ __forceinline__ void find_shares(Shares share) const {
    const int lane = block_.lane, used_splits = block_.used_splits;
#pragma unroll 1
    for (int row = block_.warp; row < block_.rows; row += kAttentionWarps) {
      float largest[2], sum[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int s = lane + k * kWarp;
        largest[k] = s < used_splits ? __ldcg(parts_ + s * kPartFloats + row) : -INFINITY;
        sum[k] = s < used_splits ? __ldcg(parts_ + s * kPartFloats + kAttentionRows + row) : 0;
      }
      const float reference = warp_reduce(fmaxf(largest[0], largest[1]), [](float a, float b) { return fmaxf(a, b); });
      float total = 0;
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        largest[k] = exp2_approx(largest[k] - reference);
        total += largest[k] * sum[k];
      }
      total = warp_sum(total);
#pragma unroll
      for (int k = 0; k < 2; ++k)
        if (const int s = lane + k * kWarp; s < used_splits) share[s][row] = largest[k] / total;
    }
  }

  const AttentionBlock<Shape>& block_;
  const float* parts_;
  int columns_; // of four outputs
  int groups_, first_split_;
};

} // namespace ridge::kernels::cuda
