// The shape of the attention kernel's work (attention.cu): its tiles, rounds and splits, and what a block shares.
#pragma once

#include "kernels/cuda/attention/cached_rows.cuh"
#include "kernels/cuda/attention/heads.cuh"

#include <type_traits>

namespace ridge::kernels::cuda {

inline constexpr int kAttentionWarps = 8, kAttentionThreads = kAttentionWarps * kWarp;
inline constexpr int kKeysPerWarp = 16, kKeysPerRound = kAttentionWarps * kKeysPerWarp;
// A second round costs less than another block to merge with, a third one more. Very wide heads (wide_attention.cu)
// have short rounds, and a kernel behind theirs merges.
inline constexpr int kSingleSplitKeys = 2 * kKeysPerRound, kWideSplitKeys = 64;
inline constexpr float kLog2e = 1.4426950408889634f;

// Where a kernel finds the keys and values of the batch's own tokens.
enum class NewTokens : uint8_t {
  stored, // in the cache, by the kernel in front
  alone,  // q, k and v come as their matrices gave them; each token is of another stream, and a tile
  run,    // likewise, but the tokens are up to kAttentionRows consecutive ones of one stream; over f16
};

// kDim: of a head, k_dim = v_dim: 64, 128 or 256; where kRagged, the most of it. kTiles: of eight rows.
template <int kDim_, bool kRagged_, bool kKeyCodes_, bool kValueCodes_, int kTiles_, NewTokens kNew>
struct AttentionShape {
  static constexpr int kDim = kDim_, kTiles = kTiles_, kTileRows = 8 * kTiles;
  static constexpr bool kRagged = kRagged_, kKeyCodes = kKeyCodes_, kValueCodes = kValueCodes_;
  static constexpr bool kRope = kNew != NewTokens::stored, kRun = kNew == NewTokens::run;
  static constexpr bool kTokenTiles = kNew == NewTokens::alone; // a tile is one token
  static constexpr int kChunks = kDim / 32;                     // of 32 dims: two products deep
  // Lanes that load a head's vector together, and how much each has of it.
  static constexpr int kLanes = Quad<kDim>::kLanes, kQuads = Quad<kDim>::kPerLane;
  // Outputs: a warp makes 16 columns or more from the keys of kPartWarps warps. With 64 columns that is half of the
  // keys.
  static constexpr int kColumnTiles = kDim > 128 ? kDim / 128 : 1;
  static constexpr int kKeyParts = kDim < 128 ? 128 / kDim : 1, kPartWarps = kAttentionWarps / kKeyParts;
  // Wide heads have so much to merge that blocks share it.
  static constexpr bool kMergesInGroups = kDim > 128;
};
// What the warps of a block share in a round: its values; of each row and key the exponential of the score less the
// warp's maximum; of each row and warp this maximum and the sum of the exponentials. Padded for the banks.
template <int kDim, int kTiles>
struct AttentionRound {
  __align__(16) __half values[kKeysPerRound][kDim + 8];
  __align__(16) __half weights[8 * kTiles][kKeysPerRound + 8];
  __align__(16) float largest[8 * kTiles][kAttentionWarps], sums[8 * kTiles][kAttentionWarps];
};
// The sinks of the tile's rows in log2 units.
using Sinks = float[kAttentionRows];
template <typename Shape>
using RoundOf = AttentionRound<Shape::kDim, Shape::kTiles>;

// The tile's queries in log2 units, padded for the banks.
template <typename Shape>
using Queries = __half[Shape::kTileRows][Shape::kDim + 32];

// What a token alone adds: cosines and sines, its key as the cache stores it, its value as f16.
template <typename Shape>
struct NewestRow {
  __align__(16) float2 angles[Shape::kDim / 2];
  __align__(16) uint8_t key[2 * Shape::kDim];
  __align__(16) uint16_t key_scales[Shape::kDim / 32];
  __align__(16) __half value[Shape::kDim];
};
// The same of a run, by token of the batch. Padded for the banks.
template <typename Shape>
struct NewestRows {
  __align__(16) float2 angles[kAttentionRows][Shape::kDim / 2];
  __align__(16) __half keys[kAttentionRows][Shape::kDim + 32];
  __align__(16) __half values[kAttentionRows][Shape::kDim];
};
struct NoNewestRow {};
template <typename Shape>
using NewestOf =
    std::conditional_t<Shape::kRun, NewestRows<Shape>, std::conditional_t<Shape::kRope, NewestRow<Shape>, NoNewestRow>>;

// A block's tile of rows, its KV head and its split of the context.
template <typename Shape>
struct AttentionBlock {
  static constexpr bool kTokenTiles = Shape::kTokenTiles;
  using Width = HeadWidth<Shape::kDim, Shape::kRagged>;
  const AttentionArgs& args;
  Width width;
  int lane, warp, g, t; // g and t: the lane's place in the products, lane / 4 and lane % 4
  int kv_head, split, tile, group;
  int first_token, tokens, rows;
  int64_t head_at;        // the first cached row of the head
  RowsFrom row_of;        // of the positions that the tile sees, and of the one before
  int length, begin, end; // of the context; of this split
  int used_splits;

  __device__ __forceinline__ explicit AttentionBlock(const AttentionArgs& args) : args(args), width(args.cache.k_dim) {
    lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, g = lane / 4, t = lane % 4;
    kv_head = blockIdx.x, split = blockIdx.y, tile = blockIdx.z;
    group = args.group.by;
    first_token = tile * args.tile_tokens;
    tokens = min(args.tile_tokens, args.tokens - first_token), rows = tokens * group;
  }
  // Where there is a window, a tile is one token, and only what that token sees is shared out. False: that is so short
  // that this split has none of it.
  __device__ __forceinline__ bool take_split(int64_t stream, int context_length) {
    length = context_length;
    head_at = (stream * args.cache.heads + kv_head) * args.cache.rows;
    const int first = args.visible.first_seen(length - 1), seen = length - first;
    row_of = RowsFrom(args.cache, max(first - 1, 0));
    constexpr int kShort = Shape::kDim > 256 ? kWideSplitKeys : kSingleSplitKeys;
    int per_split = kShort;
    used_splits = 1;
    if (seen > kShort) { // divisions take longer than what a short context needs
      const int even = (seen + args.splits * kKeysPerWarp - 1) / (args.splits * kKeysPerWarp) * kKeysPerWarp;
      per_split = max(Shape::kDim > 256 ? kWideSplitKeys : kKeysPerRound, even);
      used_splits = (seen + per_split - 1) / per_split;
    }
    begin = first + split * per_split, end = min(length, begin + per_split);
    return split < used_splits;
  }
  // The first position that is in no cache before this kernel.
  __device__ __forceinline__ int first_new() const {
    return Shape::kRun ? length - first_token - tokens : Shape::kRope ? length - 1 : length;
  }
  // Whether this block has a row of a new token.
  __device__ __forceinline__ bool has_newest() const {
    return Shape::kRun ? end > first_new() : Shape::kRope && end == length;
  }
  // The last position that may be read from the cache. Where there is none, it is a position whose row is not used.
  __device__ __forceinline__ int last_stored() const {
    return Shape::kRun ? max(first_new() - 1, begin) : Shape::kRope ? max(length - 2, 0) : length - 1;
  }
  // A row's token among the tile's, and its head among those that share the KV head.
  __device__ __forceinline__ int token_of(int row) const { return kTokenTiles ? 0 : args.group.quotient(row); }
  __device__ __forceinline__ int head_of(int row) const { return row - token_of(row) * group; }
  // Where a row's output goes.
  __device__ __forceinline__ float* result(int row) const {
    const int head = kv_head * group + head_of(row);
    return args.out + (int64_t{first_token + token_of(row)} * args.heads + head) * width.get();
  }
  // And as f16.
  __device__ __forceinline__ __half* half_result(int row, int column) const {
    const uint32_t token = first_token + token_of(row), at = (kv_head * group + head_of(row)) * width.get() + column;
    auto* halves = reinterpret_cast<__half*>(args.out_half);
    if (args.half_layout == HalfLayout::wide)
      return halves + wide_place(args.tokens, wide_tile_rows(args.tokens), token, at);
    return halves + interleaved_place(args.tokens, token, at / 8) * 8 + interleaved_column(at % 8);
  }
  __device__ __forceinline__ int64_t part_size() const { return part_floats(width.get()); }
  __device__ __forceinline__ float* parts() const {
    return args.partial + (int64_t{tile} * args.cache.heads + kv_head) * args.splits * part_size();
  }
};

} // namespace ridge::kernels::cuda
