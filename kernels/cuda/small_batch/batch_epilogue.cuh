// Adds the consumers' sums and finishes results in one warp while the consumers continue.
#pragma once

#include "kernels/cuda/small_batch/batch_result.cuh"
#include "kernels/cuda/small_batch/batch_tasks.cuh"

namespace ridge::kernels::cuda {

// [token tiles][warps][lanes], as in BatchResults
struct BatchSums {
  float4* values;
  BarrierAddress full, empty;
  int parity = 0;
};

template <typename Format, int kTileTokens, bool kExperts>
class BatchEpilogue {
  using B = BatchShape<Format>;
  using Tasks = BatchTasks<kTileTokens, kExperts>;
  using Range = typename BatchColumns<Format>::Range;
  static constexpr int kTokenTiles = kTileTokens / 8;
  static constexpr bool kHalf = kTileTokens <= kMaxHalfTokens;

 public:
  __device__ __forceinline__ BatchEpilogue(const Tasks& tasks, const BatchSums& sums)
      : tasks_(tasks), sums_(sums), lane_(threadIdx.x % kWarp) {}

  __device__ __forceinline__ void begin(const BatchTask& work) {
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int token = 8 * n + lane_ % 4 * 2 + i;
        slot_[n][i] = token < work.tokens.count ? tasks_.slot(work, token) : -1;
        scale_[n][i] = slot_[n][i] < 0 ? 0 : batch_scale(exponent(tasks_.row_of(slot_[n][i])));
        largest_[n][i] = 0;
      }
  }

  __device__ __forceinline__ void finish_row_tile(const BatchTask& work, int row_tile, const Range& range, int pass) {
    const BatchArgs& args = tasks_.args;
    const bool last = args.serial_ranges ? pass + 1 == args.ranges : args.ranges == 1;
    const bool before = args.serial_ranges && pass > 0; // this lane stored the previous ranges' sum
    float4* accumulated_sums =
        args.serial_ranges ? reinterpret_cast<float4*>(tasks_.accumulated_sums(work, row_tile)) + lane_ : nullptr;
    const BatchResults results(args, row_tile, work.tokens.expert);
    float4 sum[kTokenTiles];
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
      sum[n] = last ? results.addends(slot_[n]) : float4{};
      if (before) sum[n] = sum[n] + accumulated_sums[n * kWarp];
    }
    sums_.full.wait(sums_.parity);
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
      float4 total = {};
#pragma unroll
      for (int w = 0; w < B::kConsumerWarps; ++w)
        total = total + sums_.values[(n * B::kConsumerWarps + w) * kWarp + lane_];
      sum[n].x += total.x * scale_[n][0], sum[n].y += total.y * scale_[n][1];
      sum[n].z += total.z * scale_[n][0], sum[n].w += total.w * scale_[n][1];
    }
    sums_.empty.arrive();
    sums_.parity ^= 1;
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
      if (last)
        results.template write<kHalf>(sum[n], slot_[n], largest_[n]);
      else if (accumulated_sums)
        accumulated_sums[n * kWarp] = sum[n];
      else
        leave_sums(args,
                   tasks_.sums(range.number, work.tokens.first + 8 * n + lane_ % 4 * 2) + row_tile * kBatchRows +
                       lane_ / 4,
                   sum[n]);
    }
  }

  __device__ __forceinline__ void end() const {
    if constexpr (kHalf) {
      unsigned* to = tasks_.args.out_largest;
      if (!to) return;
#pragma unroll
      for (int n = 0; n < kTokenTiles; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float largest = largest_[n][i];
          for (int lanes = 4; lanes < kWarp; lanes *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, lanes));
          if (lane_ < 4 && slot_[n][i] >= 0) atomicMax(to + slot_[n][i] * kRowMaximumPitch, __float_as_uint(largest));
        }
    }
  }

 private:
  __device__ __forceinline__ int exponent(int64_t row) const {
    const BatchArgs& args = tasks_.args;
    if (!args.x_largest) return args.product.exponent[row];
    const float largest = __uint_as_float(args.x_largest[row * kRowMaximumPitch]);
    return fits_half(largest) ? 0 : half_exponent(largest);
  }

  const Tasks& tasks_;
  BatchSums sums_;
  int lane_;
  int slot_[kTokenTiles][2];
  float scale_[kTokenTiles][2];
  float largest_[kTokenTiles][2];
};

} // namespace ridge::kernels::cuda
