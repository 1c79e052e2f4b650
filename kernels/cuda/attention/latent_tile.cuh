// The shape of the latent attention kernel's work (latent_attention.cu): tiles of rows, rounds of keys, splits of the
// context, and what a block shares.
//
// A row is a query head of a token; rows are numbered token by token. A tile is up to 64 of them that read the same
// keys. Where tokens are of one stream and in sequence, a tile may begin with one token and end with another one.
#pragma once

#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {

inline constexpr int kLatentWarps = 8, kLatentThreads = kLatentWarps * kWarp;
inline constexpr int kLatentKeys = 32; // of a round
inline constexpr int kMostRest = 64;   // elements of a key behind its value
inline constexpr int kLeastLatentSplit = 2 * kLatentKeys;

// kDim: of a value, which a key begins with. kTiles: of 16 rows.
template <int kDim_, int kTiles_>
struct LatentShape {
  static constexpr int kDim = kDim_, kTiles = kTiles_, kRows = 16 * kTiles;
  static constexpr int kPitch = kDim + kMostRest + 8;     // of queries and keys, in elements; padded for the banks
  static constexpr int kColumns = kDim / kLatentWarps;    // of the outputs that a warp makes
  static constexpr int kParts = kTiles == 1 ? 2 : 1;      // sums that make a score: of a tile, two warps share a key
  static constexpr int kScoreTiles = kTiles == 4 ? 2 : 1; // of 16 rows that a warp scores
  using Key = __half[kPitch];
};

template <typename Shape>
struct LatentShared {
  __align__(16) __half query[Shape::kRows][Shape::kPitch]; // in log2 units
  __align__(16) __half weights[Shape::kRows][kLatentKeys + 8];
  __align__(16) float scores[Shape::kParts][Shape::kRows][kLatentKeys + 4];
  __align__(16) float shrink[Shape::kRows];                 // of what a row has summed up so far
  __align__(16) __half keys[1][kLatentKeys][Shape::kPitch]; // as many as there are stages
};
template <typename Shape>
constexpr int latent_shared_bytes(int stages) {
  return static_cast<int>(sizeof(LatentShared<Shape>) + (stages - 1) * sizeof(LatentShared<Shape>::keys));
}

// A tile's rows, and how blocks share its context.
struct LatentTile {
  int first_row, rows;
  int length, per_split, used_splits; // positions of the context, of a split; splits that have any
  int old_keys;                       // positions before it are those of earlier steps

  // Tile number `tile` of a kernel whose tiles have up to `most_rows` rows.
  __device__ __forceinline__ LatentTile(const LatentArgs& args, int tile, int most_rows) {
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
    length = args.positions[args.heads.quotient(first_row + rows - 1)] + 1;
    old_keys = args.tokens_share_tiles ? args.positions[0] : args.lone_tokens ? length - 1 : 0;
    const int even = args.splits.quotient(length + args.splits.by - 1);
    per_split = max(kLeastLatentSplit, (even + kLatentKeys - 1) / kLatentKeys * kLatentKeys);
    used_splits = length <= per_split ? 1 : (length + per_split - 1) / per_split;
  }
};

} // namespace ridge::kernels::cuda
