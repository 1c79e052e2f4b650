// Which rows each expert was chosen for, so that a product reads an expert's weights once for all of them.
#include "kernels/cuda/batch.h"
#include "kernels/cuda/ptx.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 1024;

// One block. Slots are sorted by expert (in any order within one), and each expert's are cut into tiles.
__global__ void __launch_bounds__(kThreads)
    group_slots_kernel(const int32_t* ids, int slots, int experts, int tile_tokens, int* order, ExpertTile* tiles,
                       int* tile_count) {
  extern __shared__ int count[]; // [experts], then the next free place of each
  int* next = count + experts;
  let_successor_start();
  wait_for_predecessor();
  for (int e = threadIdx.x; e < experts; e += kThreads) count[e] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < slots; i += kThreads) atomicAdd(&count[ids[i]], 1);
  __syncthreads();
  for (int e = threadIdx.x; e < experts; e += kThreads) {
    int first = 0, first_tile = 0;
    for (int before = 0; before < e; ++before) {
      first += count[before];
      first_tile += (count[before] + tile_tokens - 1) / tile_tokens;
    }
    next[e] = first;
    const int mine = (count[e] + tile_tokens - 1) / tile_tokens;
    for (int i = 0; i < mine; ++i)
      tiles[first_tile + i] = {e, first + i * tile_tokens, min(tile_tokens, count[e] - i * tile_tokens)};
    if (e == experts - 1) *tile_count = first_tile + mine;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < slots; i += kThreads) order[atomicAdd(&next[ids[i]], 1)] = i;
}

} // namespace

void launch_group_slots(const Launch& launch, const int32_t* ids, int slots, int experts, int tile_tokens, int* order,
                        ExpertTile* tiles, int* tile_count) {
  launch(group_slots_kernel, 1, kThreads, 2 * experts * sizeof(int), ids, slots, experts, tile_tokens, order, tiles,
         tile_count);
}

} // namespace ridge::kernels::cuda
