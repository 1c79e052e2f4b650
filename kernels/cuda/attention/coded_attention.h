// Attention over caches of codes with few rows per tile; launch_attention and launch_rope_attention use it.
#pragma once

#include "kernels/cuda/ops/ops.h"

namespace ridge::kernels::cuda {

// `rows`: of a tile.
bool has_coded_attention(const Cache& cache, int rows, const ChipLimits& chip);
void launch_coded_attention(const Launch&, const AttentionArgs&);
// Every token is a tile.
void launch_coded_rope_attention(const Launch&, const AttentionArgs&, const RopeStoreArgs&);

} // namespace ridge::kernels::cuda
