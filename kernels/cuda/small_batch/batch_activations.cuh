// A task's f16 activations over a range of columns, by bulk copies of chunks (products/half_layout.h). Warps wait for
// each chunk at its first use: 2 % faster for 8 and 32 streams of an 8B.
#pragma once

#include "kernels/cuda/small_batch/batch_result.cuh"
#include "kernels/cuda/small_batch/batch_tasks.cuh"

namespace ridge::kernels::cuda {

template <typename Format, int kTileTokens, bool kExperts>
class BatchActivations {
  using Tasks = BatchTasks<kTileTokens, kExperts>;
  using Range = typename BatchColumns<Format>::Range;
  static constexpr int kConsumers = 15;

 public:
  static constexpr int kChunkBytes = kTileTokens * kChunkPitch;

  __device__ __forceinline__ BatchActivations(const Tasks& tasks, uint8_t* tile, BarrierAddress arrived, int threads)
      : tasks_(tasks), tile_(tile), arrived_(arrived), threads_(threads) {}

  __device__ __forceinline__ void bring(const BatchTask& work, const Range& range, int number) const {
    named_sync(kConsumers, threads_); // all warps are done with the previous range
    const int chunks = (range.end - range.first + kChunkTiles<Format> - 1) / kChunkTiles<Format>;
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x < kWarp) copy_in_bulk(work, first_chunk(range), chunks);
#else
    copy_pieces(work, first_chunk(range), chunks);
#endif
    if (tasks_.args.x_largest) convert_others(work, range, chunks, number);
  }

  // Every warp of the first warp group waits for every chunk.
  __device__ __forceinline__ void wait_for(int chunk, int number) const {
#if __CUDA_ARCH__ >= 900
    (arrived_ + chunk).wait(number % 2);
#endif
  }

 private:
  static __device__ __forceinline__ int64_t first_chunk(const Range& range) {
    return range.first / kChunkTiles<Format>;
  }
  __device__ __forceinline__ int64_t row(const BatchTask& work, int token) const {
    return tasks_.row_of(tasks_.slot(work, token));
  }
  __device__ __forceinline__ const uint8_t* chunk_at(int64_t chunk, int64_t row) const {
    return reinterpret_cast<const uint8_t*>(tasks_.args.product.x) + (chunk * tasks_.args.x_rows + row) * kChunkPitch;
  }

  // By the first warp. A lane brings a chunk of all rows; with experts, a row of each chunk.
  __device__ __forceinline__ void copy_in_bulk(const BatchTask& work, int64_t first, int chunks) const {
    const int lane = threadIdx.x, of_range = tasks_.args.range_tiles / kChunkTiles<Format>;
    const uint32_t bytes = work.tokens.count * kChunkPitch;
    // A shorter last range must complete all barriers' phases.
    if (lane < of_range) (arrived_ + lane).arrive_expecting(lane < chunks ? bytes : 0);
    if constexpr (!kExperts) {
      if (lane < chunks)
        (arrived_ + lane).bulk_copy(tile_ + lane * kChunkBytes, chunk_at(first + lane, row(work, 0)), bytes);
      return;
    }
    __syncwarp();
    if (lane >= work.tokens.count) return;
    const int64_t from = row(work, lane);
    for (int chunk = 0; chunk < chunks; ++chunk)
      (arrived_ + chunk)
          .bulk_copy(tile_ + chunk * kChunkBytes + lane * kChunkPitch, chunk_at(first + chunk, from), kChunkPitch);
  }

  // By all warps, 32 neighbouring pieces at a time. With a row per warp all blocks would ask few parts of L2 at once:
  // 128 KB took 5 to 10 µs instead of 1.2.
  __device__ __forceinline__ void copy_pieces(const BatchTask& work, int64_t first, int chunks) const {
    const int lane = threadIdx.x % kWarp, warps = threads_ / kWarp;
    constexpr int kSteps = kChunkPieces / kWarp;
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int i = threadIdx.x / kWarp; i < work.tokens.count * kSteps; i += warps) {
        const int token = i / kSteps, piece = i % kSteps * kWarp + lane;
        copy_async_16(tile_ + chunk * kChunkBytes + token * kChunkPitch + piece * 16,
                      chunk_at(first + chunk, row(work, token)) + piece * 16);
      }
    copy_async_commit();
    copy_async_wait<0>();
    named_sync(kConsumers, threads_);
  }

  // Converts rows that do not fit f16 unscaled; most models have none.
  __device__ __forceinline__ void convert_others(const BatchTask& work, const Range& range, int chunks,
                                                 int number) const {
    const BatchArgs& args = tasks_.args;
    const int lane = threadIdx.x % kWarp;
    float largest = 0;
    if (lane < work.tokens.count) largest = __uint_as_float(args.x_largest[row(work, lane) * kRowMaximumPitch]);
    uint32_t others = __ballot_sync(~0U, !fits_half(largest));
    if (others == 0) return;
    for (int chunk = 0; chunk < chunks; ++chunk) wait_for(chunk, number);
    named_sync(kConsumers, threads_);
    const int64_t first = range.first * int64_t{kTileSpans<Format>} * 4, cols = args.product.cols;
    for (; others != 0; others &= others - 1) {
      const int token = __ffs(static_cast<int>(others)) - 1;
      const float factor = exp2f(static_cast<float>(-half_exponent(__shfl_sync(~0U, largest, token))));
      const float* from = args.x_floats + row(work, token) * cols;
      for (int piece = threadIdx.x; piece < chunks * kChunkPieces && (first + piece) * 8 < cols; piece += threads_) {
        const float4 a = *reinterpret_cast<const float4*>(from + (first + piece) * 8),
                     b = *reinterpret_cast<const float4*>(from + (first + piece) * 8 + 4);
        *reinterpret_cast<uint4*>(tile_ + piece / kChunkPieces * kChunkBytes + token * kChunkPitch +
                                  interleaved_place(piece % kChunkPieces) * 16) = {
            pack_half2(a.x * factor, a.z * factor), pack_half2(a.y * factor, a.w * factor),
            pack_half2(b.x * factor, b.z * factor), pack_half2(b.y * factor, b.w * factor)};
      }
    }
    fence_bulk_copies(); // orders the next range's bulk copies after these stores
    named_sync(kConsumers, threads_);
  }

  const Tasks& tasks_;
  uint8_t* tile_;
  BarrierAddress arrived_;
  int threads_;
};

} // namespace ridge::kernels::cuda
