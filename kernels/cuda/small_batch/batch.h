// The arguments of batch.cuh.
#pragma once

#include "kernels/cuda/matvec/matvec.h"
#include "kernels/cuda/products/gemm.h"
#include "kernels/cuda/products/scratch_sizes.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/divisor.h"

namespace ridge::kernels::cuda {

// In order of first use: arguments arrive in lines of 64 bytes.
struct BatchArgs {
  // A TileCut's. A task: a tile of tokens, a share of the row tiles, and one range of columns or (serial_ranges) all
  // in turn. Shares have share_tiles row tiles, the first longer_shares one more.
  int token_tiles, row_tiles;
  int tasks, share_tiles, longer_shares;
  Divisor shares, token_tile_count;
  int range_tiles, ranges;
  int warp_groups;
  int slots;
  bool serial_ranges;
  // The neighbouring product has the same x, and may run concurrently.
  bool sibling_follows, follows_sibling;
  bool gated;       // segments are gate and up; the result goes to segment 0's out
  bool leaves_sums; // launch_to_half adds the partial sums
  Stamp* stamps;    // set by the launcher
  const ExpertTile* tiles;
  const int* tile_count;
  int64_t x_rows;
  // x as the preceding product left it. The f16 of rows that fits_half is unscaled; others are converted here. Null:
  // product.exponent applies.
  const unsigned* x_largest; // bits of a float, kRowMaximumPitch apart
  const float* x_floats;

  // interleaved x (half_layout.h), zero from cols to x_stride; tokens: rows of x, or slots
  GemmArgs product;
  FusedGlu glu;

  // For the product after a gated one, in tiles up to kMaxHalfTokens; or null. Maxima must be 0 before.
  unsigned* out_largest;
  uint16_t* out_half;
  int64_t out_rows;

  // Partial sums: [ranges][token_tiles * tokens of a tile][row_tiles * 16]; with serial_ranges as in BatchResults, per
  // block, row tile and 8 tokens.
  float* partial;

  const int* order;
  ExpertPlaces experts;
  int used; // slots per row of x; 1 if x has a row per slot
};

inline void set_cut(BatchArgs& args, const TileCut& cut) {
  args.token_tiles = cut.token_tiles, args.row_tiles = cut.row_tiles;
  args.ranges = cut.ranges, args.serial_ranges = cut.serial_ranges;
  args.range_tiles = cut.range_tiles, args.warp_groups = cut.warp_groups, args.slots = cut.slots;
  args.shares = Divisor(cut.shares), args.token_tile_count = Divisor(cut.token_tiles);
  args.share_tiles = cut.row_tiles / cut.shares, args.longer_shares = cut.row_tiles % cut.shares;
  args.tasks = cut.token_tiles * cut.shares * (cut.serial_ranges ? 1 : cut.ranges);
}

// `order` [slots], `tiles` [most_expert_tiles]. `places` [slots]: each slot's row among those of all tiles.
void launch_group_slots(const Launch&, const int32_t* ids, int slots, int experts, int tile_tokens, int* order,
                        int* places, ExpertTile* tiles, int* tile_count);

void launch_batch_finish(const Launch&, const BatchArgs& args, int tile_tokens);

RIDGE_HD int64_t batch_sums_at(const BatchArgs& args, int tile_tokens, int range, int token) {
  return (int64_t{range} * args.token_tiles * tile_tokens + token) * args.row_tiles * kBatchRows;
}

} // namespace ridge::kernels::cuda
