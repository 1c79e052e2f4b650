// The activations of a task in shared memory: a row of f16 per token, over one range of columns, interleaved
// (gemm/half_layout.h).
#pragma once

#include "kernels/cuda/small_batch/batch_result.cuh"
#include "kernels/cuda/small_batch/batch_tasks.cuh"

namespace ridge::kernels::cuda {

template <typename Format, int kTileTokens>
class BatchActivations {
  using Tasks = BatchTasks<kTileTokens>;
  using Range = typename BatchColumns<Format>::Range;
  static constexpr int kSpans = kTileSpans<Format>;
  static constexpr int kConsumers = 15; // the name of their barrier

 public:
  using Scales = float[2][kTileTokens]; // of two tasks: the epilogue may still read those of the one before

  // `threads`: those that multiply, of all warp groups.
  __device__ __forceinline__ BatchActivations(const Tasks& tasks, uint8_t* tile, Scales& scales, int threads)
      : tasks_(tasks), tile_(tile), scales_(scales), threads_(threads),
        pitch_(batch_x_pitch(tasks.args.range_tiles * kSpans)) {}

  __device__ __forceinline__ int pitch() const { return pitch_; }

  // Brings a range's activations and the rows' scales; `number`: of the range in the block's order.
  __device__ __forceinline__ void bring(const BatchTask& work, const Range& range, int number) const {
    const GemmArgs& product = tasks_.args.product;
    const auto row = [&](int token) { return tasks_.slot(work, token) / tasks_.args.used; };
    const int first = range.first * kSpans * 4; // in pieces of eight columns
    const int pieces = min((range.end - range.first) * kSpans * 4, static_cast<int>(product.x_stride / 8) - first);
    named_sync(kConsumers, threads_);
    // The warps copy neighbouring pieces, 32 each, and go on behind all of them. Where each copied a row instead, all
    // warps of all blocks asked few parts of L2 at a time, and 128 KB took 5 to 10 µs instead of 1.2.
    const int lane = threadIdx.x % kWarp, warps = threads_ / kWarp, steps = (pieces + kWarp - 1) / kWarp;
    int step = threadIdx.x / kWarp;
    for (int token = 0; token < work.tokens.count; ++token, step -= steps) {
      const uint16_t* from = product.x + row(token) * product.x_stride + first * 8;
      for (; step < steps; step += warps)
        if (const int piece = step * kWarp + lane; piece < pieces)
          copy_async_16(tile_ + token * pitch_ + piece * 16, from + piece * 8);
    }
    if (static_cast<int>(threadIdx.x) < work.tokens.count)
      scales_[number % 2][threadIdx.x] = batch_scale(product.exponent[row(threadIdx.x)]);
    copy_async_commit();
    copy_async_wait<0>();
    named_sync(kConsumers, threads_);
  }

 private:
  const Tasks& tasks_;
  uint8_t* tile_;
  Scales& scales_;
  int threads_, pitch_;
};

} // namespace ridge::kernels::cuda
