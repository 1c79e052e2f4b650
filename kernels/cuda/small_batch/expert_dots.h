// The arguments of expert_dots.cuh: experts with few tokens each.
#pragma once

#include "kernels/cuda/small_batch/batch.h"

namespace ridge::kernels::cuda {

struct ExpertDotArgs {
  // x is x_floats, in rows, or f16 with exponents. Only row_tiles describes the division of work.
  BatchArgs product;

  // Set by the launcher: row tiles in the ring; warps per row tile; tokens that fit; bytes between row blocks.
  int stages, team, log2_team, room, row_block_pitch;
  Divisor row_tile_count;
};

inline constexpr int kDotTokens = 8;

} // namespace ridge::kernels::cuda
