// Sorts slots by expert, and adds partial sums; independent of the format.
#include "kernels/cuda/runtime/warp.cuh"
#include "kernels/cuda/small_batch/batch_result.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 1024, kFinishThreads = 128;

// One block. The order within an expert is arbitrary.
__global__ void __launch_bounds__(kThreads)
    group_slots_kernel(const int32_t* ids, int slots, int experts, int tile_tokens, int* order, int* places,
                       ExpertTile* tiles, int* tile_count, Stamp* stamps) {
  // By expert: slots, later slots of a tile; next free place; its first row among all tiles'; its first place.
  extern __shared__ int count[];
  __shared__ int2 of_warp[kThreads / kWarp];
  int *next = count + experts, *first_row = next + experts, *start = first_row + experts;
  const DependentWork work(stamps);
  for (int e = threadIdx.x; e < experts; e += kThreads) count[e] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < slots; i += kThreads) atomicAdd(&count[ids[i]], 1);
  __syncthreads();
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  int first = 0, first_tile = 0;
  for (int begin = 0; begin < experts; begin += kThreads) {
    const int e = begin + threadIdx.x;
    const int mine = e < experts ? count[e] : 0, tiles_of_mine = (mine + tile_tokens - 1) / tile_tokens;
    int each = tile_tokens; // an expert's counted tiles are equally full
    if (tile_tokens == kCountedTile && mine > 0) each = ((mine + tiles_of_mine - 1) / tiles_of_mine + 15) & ~15;
    const int slots_so_far = warp_prefix_sum(mine), tiles_so_far = warp_prefix_sum(tiles_of_mine);
    if (lane == kWarp - 1) of_warp[warp] = {slots_so_far, tiles_so_far};
    __syncthreads();
    const auto add = [&](int from, int to) {
      for (int w = from; w < to; ++w) first += of_warp[w].x, first_tile += of_warp[w].y;
    };
    if (e < experts) {
      add(0, warp);
      next[e] = start[e] = first + slots_so_far - mine;
      const int tile = first_tile + tiles_so_far - tiles_of_mine;
      first_row[e] = tile * tile_tokens;
      count[e] = each; // read before by this thread alone
      for (int i = 0; i < tiles_of_mine; ++i) tiles[tile + i] = {e, next[e] + i * each, min(each, mine - i * each)};
      if (e == experts - 1) *tile_count = tile + tiles_of_mine;
    }
    if (begin + kThreads < experts) add(warp, kThreads / kWarp);
    __syncthreads();
  }
  for (int i = threadIdx.x; i < slots; i += kThreads) {
    const int e = ids[i], at = atomicAdd(&next[e], 1);
    const int j = at - start[e], each = count[e];
    order[at] = i, places[i] = first_row[e] + j / each * tile_tokens + j % each;
  }
}

__global__ void __launch_bounds__(kFinishThreads)
    batch_finish_kernel(const __grid_constant__ BatchArgs args, int tile_tokens, Stamp* stamps) {
  const DependentWork work(stamps);
  const int lane = threadIdx.x % kWarp, tiles_of_8 = tile_tokens / 8;
  const int i = (blockIdx.x * kFinishThreads + threadIdx.x) / kWarp;
  const int row_tile = i / tiles_of_8 % args.row_tiles, token_tile = i / tiles_of_8 / args.row_tiles;
  const int token = token_tile * tile_tokens + i % tiles_of_8 * 8 + lane % 4 * 2;
  if (token_tile >= args.token_tiles) return;
  const BatchResults results(args, row_tile, 0);
  const int slot[2] = {token < args.product.tokens ? token : -1, token + 1 < args.product.tokens ? token + 1 : -1};
  const int64_t next_token = int64_t{args.row_tiles} * kBatchRows;
  float4 sum = results.addends(slot);
#pragma unroll 4
  for (int r = 0; r < args.ranges; ++r) {
    const float* from = args.partial + batch_sums_at(args, tile_tokens, r, token) + row_tile * kBatchRows + lane / 4;
    sum = sum + float4{from[0], from[next_token], from[8], from[next_token + 8]};
  }
  results.write(sum, slot);
}

} // namespace

void launch_batch_finish(const Launch& launch, const BatchArgs& args, int tile_tokens) {
  const int64_t threads = int64_t{args.token_tiles} * args.row_tiles * (tile_tokens / 8) * kWarp;
  launch(batch_finish_kernel, static_cast<unsigned>((threads + kFinishThreads - 1) / kFinishThreads), kFinishThreads, 0,
         args, tile_tokens, launch.stamps());
}

void launch_group_slots(const Launch& launch, const int32_t* ids, int slots, int experts, int tile_tokens, int* order,
                        int* places, ExpertTile* tiles, int* tile_count) {
  launch(group_slots_kernel, 1, kThreads, 4 * experts * sizeof(int), ids, slots, experts, tile_tokens, order, places,
         tiles, tile_count, launch.stamps());
}

} // namespace ridge::kernels::cuda
