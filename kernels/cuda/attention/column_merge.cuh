// Merges splits of wide rows in a second kernel: a block per row and 64 columns, so that many multiprocessors load.
#pragma once

#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {

inline constexpr int kMergeThreads = 256, kMergeWarps = kMergeThreads / kWarp;
inline constexpr int kMaxMergedSplits = kMergeThreads;
inline constexpr int kMergedColumns = 2 * kWarp; // a pair per lane

// Scratch per split: maximum and sum of `most_rows` rows, then outputs [rows][dim].
struct SplitParts {
  const float* parts;
  int splits, most_rows, dim;
};

// Merges 64 columns from `first_column` on into `out`, by a whole block. Loads start before factors are known.
__device__ __forceinline__ void merge_columns(const SplitParts& of, int row, int first_column, float* out) {
  constexpr int kBatch = 16;
  __shared__ float factors[kMergeThreads], scratch[kMergeWarps];
  __shared__ float2 sums[kMergeWarps][kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, own = threadIdx.x;
  const int64_t part_floats = int64_t{of.most_rows} * (2 + of.dim);
  const float* columns = of.parts + 2 * of.most_rows + int64_t{row} * of.dim + first_column + 2 * lane;
  float2 x[kBatch];
  const auto load = [&](int first) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      if (const int split = first + i * kMergeWarps; split < of.splits)
        x[i] = __ldcg(reinterpret_cast<const float2*>(columns + split * part_floats));
  };
  const float largest = own < of.splits ? __ldcg(of.parts + own * part_floats + row) : -INFINITY;
  const float sum = own < of.splits ? __ldcg(of.parts + own * part_floats + of.most_rows + row) : 0;
  load(warp);

  float most = warp_reduce(largest, [](float a, float b) { return fmaxf(a, b); });
  if (lane == 0) scratch[warp] = most;
  __syncthreads();
#pragma unroll
  for (const float of_warp : scratch) most = fmaxf(most, of_warp);
  __syncthreads();                                                    // before the scratch is reused
  factors[own] = most == -INFINITY ? 0 : exp2_approx(largest - most); // a row may see no key
  const float total = block_sum(factors[own] * sum, scratch);         // also makes `factors` visible

  float2 merged = {};
  for (int first = warp; first < of.splits; first += kBatch * kMergeWarps) {
    if (first > warp) load(first);
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      if (const int split = first + i * kMergeWarps; split < of.splits)
        merged.x += factors[split] * x[i].x, merged.y += factors[split] * x[i].y;
  }
  sums[warp][lane] = merged;
  __syncthreads();
  if (warp > 0) return;
  merged = {};
#pragma unroll
  for (int w = 0; w < kMergeWarps; ++w) merged.x += sums[w][lane].x, merged.y += sums[w][lane].y;
  const float of_all = total == 0 ? 1 : total;
  store_latest(out + first_column + 2 * lane, merged.x / of_all);
  store_latest(out + first_column + 2 * lane + 1, merged.y / of_all);
}

} // namespace ridge::kernels::cuda
