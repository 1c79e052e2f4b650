// The warp of a warp group that adds up its consumers' sums and finishes the results, so that the consumers go on with
// the next row tile meanwhile.
#pragma once

#include "kernels/cuda/small_batch/batch_result.cuh"
#include "kernels/cuda/small_batch/batch_tasks.cuh"

namespace ridge::kernels::cuda {

// The sums of a row tile, from the consumers to the epilogue: [token tiles][warps][lanes], as BatchResults has them.
struct BatchSums {
  float4* values;
  BarrierAddress full, empty; // all consumer warps have stored theirs; the epilogue has read them
  int parity = 0;
};

template <typename Format, int kTileTokens>
class BatchEpilogue {
  using B = BatchShape<Format>;
  using Tasks = BatchTasks<kTileTokens>;
  using Range = typename BatchColumns<Format>::Range;
  static constexpr int kTokenTiles = kTileTokens / 8;

 public:
  // `scales`: of two tasks, those of one after the other.
  __device__ __forceinline__ BatchEpilogue(const Tasks& tasks, const BatchSums& sums,
                                           const float (&scales)[2][kTileTokens])
      : tasks_(tasks), sums_(sums), scales_(scales), lane_(threadIdx.x % kWarp) {}

  // `number`: of the range in the block's order.
  __device__ __forceinline__ void finish_row_tile(const BatchTask& work, int row_tile, const Range& range, int pass,
                                                  int number) {
    const BatchArgs& args = tasks_.args;
    const bool last = tasks_.passes == 1 ? args.ranges == 1 : pass == tasks_.passes - 1;
    const bool before = args.serial_ranges && pass > 0; // this lane stored what the ranges before gave
    float4* part =
        args.ranges > 1 ? reinterpret_cast<float4*>(tasks_.partial(work, row_tile, range.number)) + lane_ : nullptr;
    const BatchResults results(args, row_tile, work.tokens.expert);
    int slot[kTokenTiles][2];
    float4 sum[kTokenTiles];
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int token = 8 * n + lane_ % 4 * 2 + i;
        slot[n][i] = token < work.tokens.count ? tasks_.slot(work, token) : -1;
      }
      sum[n] = last ? results.addends(slot[n]) : float4{};
      if (before) sum[n] = sum[n] + part[n * kWarp];
    }
    sums_.full.wait(sums_.parity);
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
      float4 total = {};
#pragma unroll
      for (int w = 0; w < B::kConsumerWarps; ++w)
        total = total + sums_.values[(n * B::kConsumerWarps + w) * kWarp + lane_];
      const float* scale = scales_[number % 2] + 8 * n + lane_ % 4 * 2;
      sum[n].x += total.x * scale[0], sum[n].y += total.y * scale[1];
      sum[n].z += total.z * scale[0], sum[n].w += total.w * scale[1];
    }
    __syncwarp();
    if (lane_ == 0) sums_.empty.arrive();
    sums_.parity ^= 1;
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
      if (last)
        results.write(sum[n], slot[n]);
      else
        part[n * kWarp] = sum[n];
    }
  }

 private:
  const Tasks& tasks_;
  BatchSums sums_;
  const float (&scales_)[2][kTileTokens];
  int lane_;
};

} // namespace ridge::kernels::cuda
