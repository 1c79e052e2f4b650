// The arguments of a product of experts that were chosen for few tokens each (expert_dots.cuh).
#pragma once

#include "kernels/cuda/small_batch/batch.h"

namespace ridge::kernels::cuda {

struct ExpertDotArgs {
  // x is what x_floats says, in rows, or f16 with exponents. Tiles have at most kDotTokens tokens, `partial` and what
  // says how work is cut up is not used, but for row_tiles.
  BatchArgs product;

  // The launcher fills these in: row tiles for which the ring has room; the warps that multiply one; tokens whose
  // activations have room; and bytes from a row block to the next one in the ring.
  int stages, team, log2_team, room, row_block_pitch;
  Divisor row_tile_count;
};

inline constexpr int kDotTokens = 8; // of a tile, at most

} // namespace ridge::kernels::cuda
