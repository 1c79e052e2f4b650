// Tiles, rounds, splits and shared memory of latent_attention.cu. A row is a query head of a token, numbered token by
// token. A tile of consecutive tokens of one stream may span tokens. Blocks that a tile's keys leave idle share its
// rows.
#pragma once

#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {

inline constexpr int kLatentWarps = 8, kLatentThreads = kLatentWarps * kWarp;
inline constexpr int kLatentKeys = 32;
inline constexpr int kMaxRopeDim = 64; // elements of a key behind its value
inline constexpr int kMinLatentSplit = 2 * kLatentKeys;
inline constexpr int kFewLatentRows = 16, kMinLatentRows = 4; // of a block that shares a tile's rows

// Keys that a token sees: all up to its own; those that a list names; the window's and another cache's entries, all or
// those that a list names.
enum class LatentKeys : uint8_t { all, chosen, mixed };

// kDim: of a value. kTiles: of 16 rows.
template <int kDim_, int kTiles_>
struct LatentShape {
  static constexpr int kDim = kDim_, kTiles = kTiles_, kRows = 16 * kTiles;
  static constexpr int kPitch = kDim + kMaxRopeDim + 8; // in elements; padded against bank conflicts
  static constexpr int kColumns = kDim / kLatentWarps;
  static constexpr int kParts = kTiles == 1 ? 2 : 1; // with one tile two warps share a key
  static constexpr int kScoreTiles = kTiles == 4 ? 2 : 1;
  using Key = __half[kPitch];
};

template <typename Shape>
struct LatentShared {
  __align__(16) __half query[Shape::kRows][Shape::kPitch];
  __align__(16) __half weights[Shape::kRows][kLatentKeys + 8];
  __align__(16) float scores[Shape::kParts][Shape::kRows][kLatentKeys + 4];
  __align__(16) float rescale_factor[Shape::kRows];         // factor of a row's running sums
  __align__(16) __half keys[1][kLatentKeys][Shape::kPitch]; // one per stage
};
template <typename Shape>
constexpr int latent_shared_bytes(int stages) {
  return static_cast<int>(sizeof(LatentShared<Shape>) + (stages - 1) * sizeof(LatentShared<Shape>::keys));
}

struct LatentTile {
  int first_row, rows, most_rows;
  int length, per_split, used_splits; // in keys
  int old_keys;                       // positions of earlier steps are below it

  __device__ __forceinline__ LatentTile(const LatentArgs& args, int tile, int of_most_rows) : most_rows(of_most_rows) {
    const int heads = args.heads.by;
    if (args.tokens_share_tiles) {
      first_row = tile * most_rows;
      rows = min(most_rows, args.tokens * heads - first_row);
    } else {
      const int token = args.tiles_per_token.quotient(tile);
      const int first_head = (tile - token * args.tiles_per_token.by) * most_rows;
      first_row = token * heads + first_head;
      rows = min(most_rows, heads - first_head);
    }
    const int seen = args.positions[args.heads.quotient(first_row + rows - 1)] + 1;
    length = args.span > 0 ? min(seen, args.window) + (args.chosen ? args.most : seen) / args.span
             : args.chosen ? min(seen, args.most)
                           : seen;
    old_keys = args.tokens_share_tiles ? args.positions[0] : args.lone_tokens ? length - 1 : 0;
    const int even = args.splits.quotient(length + args.splits.by - 1);
    per_split = max(kMinLatentSplit, (even + kLatentKeys - 1) / kLatentKeys * kLatentKeys);
    used_splits = length <= per_split ? 1 : (length + per_split - 1) / per_split;
  }
};

// What a block has of a tile: a split of the positions and some rows, all or up to kFewLatentRows, by the tile's length
// and rows and the blocks per tile. Blocks that share rows read the same keys: below kFewLatentRows, parts may take a
// quarter of the blocks. A sketch over 1 to 32 keys and 20 rows, chained with products (H200): 6.4 µs with all rows in
// a block, 4.7 with 10, 4.1 with 4; over 1,024 keys per block 105, 77, 78.
struct LatentWork {
  int split, first_row, rows; // first_row: in the tile

  __device__ __forceinline__ LatentWork(const LatentTile& tile, int block, int blocks) {
    const int fewest = (tile.rows + kFewLatentRows - 1) / kFewLatentRows;
    int parts = min(max(fewest, blocks / (4 * tile.used_splits)), (tile.rows + kMinLatentRows - 1) / kMinLatentRows);
    if (parts * tile.used_splits > blocks) parts = 1;
    const int rows_per_part = (tile.rows + parts - 1) / parts, part = block / tile.used_splits;
    split = block - part * tile.used_splits;
    first_row = part * rows_per_part;
    rows = min(rows_per_part, tile.rows - first_row); // none if the block is idle
  }
};

} // namespace ridge::kernels::cuda
