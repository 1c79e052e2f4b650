// The arguments of a product for small batches: out = x Wᵀ for two to some dozens of rows of activations, or for the
// rows that each of many experts was chosen for.
#pragma once

#include "kernels/cuda/matvec/matvec.h"
#include "kernels/cuda/products/gemm.h"
#include "kernels/cuda/products/scratch_sizes.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/divisor.h"

namespace ridge::kernels::cuda {

// What a kernel reads first comes first: its arguments arrive a line of 64 bytes at a time.
struct BatchArgs {
  // How the work is cut up: a task is a tile of tokens and a share of the rows, in tiles of 16, and one range of
  // columns or, serial_ranges, all of them one after the other. Shares have share_tiles row tiles, the first
  // longer_shares of them one more.
  int token_tiles, row_tiles;
  int tasks, share_tiles, longer_shares; // with serial_ranges, experts come a share at a time
  Divisor shares, token_tile_count;
  int range_tiles, ranges;
  int warp_groups; // per block
  int slots;       // of a warp group's ring
  bool serial_ranges;
  // A product with the same x comes next, or came right before and may still be under way.
  bool sibling_follows, follows_sibling;
  bool gated;              // segments are gate and up, what `glu` makes of them goes to segment 0's out
  bool leaves_sums;        // launch_to_half adds up the sums over ranges, when it reads the result
  Stamp* stamps;           // the launcher fills this in
  const ExpertTile* tiles; // null: no experts
  const int* tile_count;
  int64_t x_rows;
  // x as the product before left it: f32 and the largest value of each row. The f16 of a row that fits_half stands for
  // itself; other rows are converted here. Null: product.exponent counts.
  const unsigned* x_largest; // bits of a float, kLargestPitch apart
  const float* x_floats;

  // x is f16, interleaved (half_layout.h), zeros behind cols up to x_stride; tokens: rows of x, or slots with experts.
  GemmArgs product;
  FusedGlu glu;

  // The same as x_largest and x for the product behind a gated one, of tiles up to kMostHalfTokens; or null. The
  // largest values must be 0 before.
  unsigned* out_largest;
  uint16_t* out_half;
  int64_t out_rows; // of them

  // Sums over some of the columns, kBatchScratchBytes: [ranges][token_tiles * tokens of a tile][row_tiles * 16], or
  // serial_ranges as BatchResults has them, per block, row tile of its share and 8 tokens.
  float* partial;

  const int* order;
  ExpertPlaces experts;
  int used; // slots per row of x; 1 where x has a row per slot
};

// Sorts `slots` choices of experts: `order` [slots], `tiles` [most_expert_tiles] and their number. `places` [slots]:
// where each slot's row is among those of all tiles, each of `tile_tokens`.
void launch_group_slots(const Launch&, const int32_t* ids, int slots, int experts, int tile_tokens, int* order,
                        int* places, ExpertTile* tiles, int* tile_count);

// Adds up the sums that different blocks made of ranges of columns, and finishes.
void launch_batch_finish(const Launch&, const BatchArgs& args, int tile_tokens);

// Where the sums of a token over a range of columns begin, of BatchArgs::partial.
RIDGE_HD int64_t batch_sums_at(const BatchArgs& args, int tile_tokens, int range, int token) {
  return (int64_t{range} * args.token_tiles * tile_tokens + token) * args.row_tiles * kBatchRows;
}

inline int64_t batch_row_tiles(const GemmArgs& args, bool gated) {
  const auto tiles = [](int64_t rows, int per_tile) { return (rows + per_tile - 1) / per_tile; };
  if (gated) return tiles(args.segment[0].rows, kBatchRows / 2);
  int64_t total = 0;
  for (int s = 0; s < args.segments; ++s) total += tiles(args.segment[s].rows, kBatchRows);
  return total;
}

} // namespace ridge::kernels::cuda
