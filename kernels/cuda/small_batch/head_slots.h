// The slots of matrices of heads in order, without sorting.
#pragma once

#include "kernels/cuda/products/scratch_sizes.h"
#include "kernels/cuda/runtime/device.h"

namespace ridge::kernels::cuda {

// What launch_group_slots (batch.h) writes where slot i belongs to head i % heads.
void launch_head_slots(const Launch&, int tokens, int heads, int tile_tokens, int* order, int* places,
                       ExpertTile* tiles, int* tile_count);

} // namespace ridge::kernels::cuda
