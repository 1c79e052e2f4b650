#include "kernels/cuda/small_batch/head_slots.h"

#include "kernels/cuda/ops/elementwise.cuh"

namespace ridge::kernels::cuda {
namespace {

__global__ void head_slots_kernel(int tokens, int heads, int tile_tokens, int tiles_of_head, int* order, int* places,
                                  ExpertTile* tiles, int* tile_count, Stamp* stamps) {
  const DependentWork work(stamps);
  const int first = static_cast<int>(first_index()), step = static_cast<int>(index_step());
  for (int slot = first; slot < tokens * heads; slot += step) {
    const int token = slot / heads, head = slot - token * heads;
    order[head * tokens + token] = slot;
    places[slot] = head * tiles_of_head * tile_tokens + token;
  }
  for (int i = first; i < heads * tiles_of_head; i += step) {
    const int head = i / tiles_of_head, token = (i - head * tiles_of_head) * tile_tokens;
    tiles[i] = {head, head * tokens + token, min(tile_tokens, tokens - token)};
  }
  if (first == 0) *tile_count = heads * tiles_of_head;
}

} // namespace

void launch_head_slots(const Launch& launch, int tokens, int heads, int tile_tokens, int* order, int* places,
                       ExpertTile* tiles, int* tile_count) {
  launch(head_slots_kernel, blocks_for(launch, int64_t{tokens} * heads), kElementThreads, 0, tokens, heads, tile_tokens,
         (tokens + tile_tokens - 1) / tile_tokens, order, places, tiles, tile_count, launch.stamps());
}

} // namespace ridge::kernels::cuda
