// The end of latent attention where blocks have shared a tile's context: what they made of their splits becomes one
// output.
#pragma once

#include "kernels/cuda/attention/latent_tile.cuh"

namespace ridge::kernels::cuda {

inline constexpr int kMergedColumns = 2 * kWarp; // of a block: a pair per lane

// A block per row of a tile and 64 columns, so that many multiprocessors ask for the splits' outputs at once. Each of
// its warps has an eighth of the splits, and asks for the outputs of 16 of them before it knows their factors.
template <int kDim>
__global__ void __launch_bounds__(kLatentThreads)
    latent_merge_kernel(const __grid_constant__ LatentArgs args, int most_rows) {
  constexpr int kBatch = 16; // splits of a warp that are under way at once
  __shared__ float factors[kLatentThreads], scratch[kLatentWarps];
  __shared__ float2 sums[kLatentWarps][kWarp];
  const OverlappingWork work(args.stamps);
  const LatentTile tile(args, static_cast<int>(gridDim.x - 1 - blockIdx.x), most_rows);
  work.wait();
  const int row = blockIdx.y, splits = tile.used_splits;
  if (splits == 1 || row >= tile.rows) return;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, own = threadIdx.x;
  const int64_t part_floats = latent_part_floats(most_rows, kDim);
  const float* parts = args.partial + int64_t{blockIdx.x} * args.splits * part_floats;
  const float* columns = parts + 2 * most_rows + int64_t{row} * kDim + kMergedColumns * blockIdx.z + 2 * lane;
  float2 x[kBatch];
  const auto load = [&](int first) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      if (const int split = first + i * kLatentWarps; split < splits)
        x[i] = __ldcg(reinterpret_cast<const float2*>(columns + split * part_floats));
  };
  const float largest = own < splits ? __ldcg(parts + own * part_floats + row) : -INFINITY;
  const float sum = own < splits ? __ldcg(parts + own * part_floats + most_rows + row) : 0;
  load(warp);

  float most = warp_reduce(largest, [](float a, float b) { return fmaxf(a, b); });
  if (lane == 0) scratch[warp] = most;
  __syncthreads();
#pragma unroll
  for (const float of_warp : scratch) most = fmaxf(most, of_warp);
  __syncthreads(); // the scratch is used again
  factors[own] = exp2_approx(largest - most);
  const float total = block_sum(factors[own] * sum, scratch); // and factors are there

  float2 out = {};
  for (int first = warp; first < splits; first += kBatch * kLatentWarps) {
    if (first > warp) load(first);
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      if (const int split = first + i * kLatentWarps; split < splits)
        out.x += factors[split] * x[i].x, out.y += factors[split] * x[i].y;
  }
  sums[warp][lane] = out;
  __syncthreads();
  if (warp > 0) return;
  out = {};
#pragma unroll
  for (int w = 0; w < kLatentWarps; ++w) out.x += sums[w][lane].x, out.y += sums[w][lane].y;
  float* to = args.out + (tile.first_row + row) * kDim + kMergedColumns * blockIdx.z + 2 * lane;
  *reinterpret_cast<float2*>(to) = {out.x / total, out.y / total};
}

template <int kDim>
void launch_latent_merge(const Launch& launch, const LatentArgs& args, int tiles, int most_rows) {
  launch(latent_merge_kernel<kDim>, dim3(tiles, most_rows, kDim / kMergedColumns), kLatentThreads, 0, args, most_rows);
}

} // namespace ridge::kernels::cuda
