// Tiles, rounds, splits and shared memory of attention.cu.
#pragma once

#include "kernels/cuda/attention/cached_rows.cuh"
#include "kernels/cuda/attention/heads.cuh"

#include <type_traits>

namespace ridge::kernels::cuda {

inline constexpr int kAttentionWarps = 8, kAttentionThreads = kAttentionWarps * kWarp;
inline constexpr int kKeysPerWarp = 16, kKeysPerRound = kAttentionWarps * kKeysPerWarp;
// A second round costs less than a merge, a third one more. Very wide heads (wide_attention.cu) have short rounds.
inline constexpr int kSingleSplitKeys = 2 * kKeysPerRound, kWideSplitKeys = 64;

// Where keys and values of the batch's tokens are.
enum class NewTokens : uint8_t {
  stored, // already in the cache
  alone,  // raw outputs of q, k, v matrices; every token is another stream's and a tile
  run,    // likewise, but up to kAttentionRows consecutive tokens of one stream; f16
};

// kDim: 64, 128 or 256, of k and v; with kRagged, the largest width. kTiles: of eight rows.
template <int kDim_, bool kRagged_, bool kKeyCodes_, bool kValueCodes_, int kTiles_, NewTokens kNew>
struct AttentionShape {
  static constexpr int kDim = kDim_, kTiles = kTiles_, kTileRows = 8 * kTiles;
  static constexpr bool kRagged = kRagged_, kKeyCodes = kKeyCodes_, kValueCodes = kValueCodes_;
  static constexpr bool kRope = kNew != NewTokens::stored, kRun = kNew == NewTokens::run;
  static constexpr bool kTokenTiles = kNew == NewTokens::alone;
  static constexpr int kChunks = kDim / 32;
  static constexpr int kLanes = Quad<kDim>::kLanes, kQuads = Quad<kDim>::kPerLane;
  // A warp makes at least 16 columns from the keys of kPartWarps warps.
  static constexpr int kColumnTiles = kDim > 128 ? kDim / 128 : 1;
  static constexpr int kKeyParts = kDim < 128 ? 128 / kDim : 1, kPartWarps = kAttentionWarps / kKeyParts;
  static constexpr bool kMergesInGroups = kDim > 128;
  static constexpr bool kVectorsInF32 = false; // queries and new rows (coded_attention.cu)
};
// largest, sums: per row and warp the maximum score, and the sum of exponentials less it. Padded against bank
// conflicts.
template <int kDim, int kTiles>
struct AttentionRound {
  __align__(16) __half values[kKeysPerRound][kDim + 8];
  __align__(16) __half weights[8 * kTiles][kKeysPerRound + 8];
  __align__(16) float largest[8 * kTiles][kAttentionWarps], sums[8 * kTiles][kAttentionWarps];
};
// In log2 units.
using Sinks = float[kAttentionRows];
template <typename Shape>
using RoundOf = AttentionRound<Shape::kDim, Shape::kTiles>;

// In log2 units, padded against bank conflicts.
template <typename Shape>
using Queries = std::conditional_t<Shape::kVectorsInF32, float[Shape::kTileRows][Shape::kDim + 2],
                                   __half[Shape::kTileRows][Shape::kDim + 32]>;

// For NewTokens::alone; `key` as the cache stores it.
template <typename Shape>
struct NewestRow {
  __align__(16) float2 angles[Shape::kDim / 2];
  __align__(16) uint8_t key[2 * Shape::kDim];
  __align__(16) uint16_t key_scales[Shape::kDim / 32];
  __align__(16) __half value[Shape::kDim];
};
template <typename Shape>
struct NewestVectors {
  __align__(16) float2 angles[Shape::kDim / 2];
  __align__(16) float key[Shape::kDim], value[Shape::kDim];
};
// For NewTokens::run, by token of the batch.
template <typename Shape>
struct NewestRows {
  __align__(16) float2 angles[kAttentionRows][Shape::kDim / 2];
  __align__(16) __half keys[kAttentionRows][Shape::kDim + 32];
  __align__(16) __half values[kAttentionRows][Shape::kDim];
};
struct NoNewestRow {};
template <typename Shape>
using NewestOf = std::conditional_t<
    Shape::kRun, NewestRows<Shape>,
    std::conditional_t<!Shape::kRope, NoNewestRow,
                       std::conditional_t<Shape::kVectorsInF32, NewestVectors<Shape>, NewestRow<Shape>>>>;

template <typename Shape>
struct AttentionBlock {
  static constexpr bool kTokenTiles = Shape::kTokenTiles;
  using Width = HeadWidth<Shape::kDim, Shape::kRagged>;
  const AttentionArgs& args;
  Width width;
  int lane, warp, g, t; // g = lane / 4, t = lane % 4
  int kv_head, split, tile, group;
  int first_token, tokens, rows;
  int64_t head_at;        // first cached row of the head
  RowsFrom row_of;        // valid for visible positions and the one before
  int length, begin, end; // of the context; of this split
  int used_splits;

  __device__ __forceinline__ explicit AttentionBlock(const AttentionArgs& args) : args(args), width(args.cache.k_dim) {
    lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, g = lane / 4, t = lane % 4;
    kv_head = blockIdx.x, split = blockIdx.y, tile = blockIdx.z;
    group = args.group.by;
    first_token = tile * args.tile_tokens;
    tokens = min(args.tile_tokens, args.tokens - first_token), rows = tokens * group;
  }
  // With a window a tile is one token. Returns false if this split is empty.
  __device__ __forceinline__ bool take_split(int64_t stream, int context_length) {
    length = context_length;
    head_at = (stream * args.cache.heads + kv_head) * args.cache.rows;
    const int first = args.visible.first_seen(length - 1), seen = length - first;
    row_of = RowsFrom(args.cache, max(first - 1, 0));
    constexpr int kShort = Shape::kDim > 256 ? kWideSplitKeys : kSingleSplitKeys;
    int per_split = kShort;
    used_splits = 1;
    if (seen > kShort) { // spares short contexts divisions
      const int even = (seen + args.splits * kKeysPerWarp - 1) / (args.splits * kKeysPerWarp) * kKeysPerWarp;
      per_split = max(Shape::kDim > 256 ? kWideSplitKeys : kKeysPerRound, even);
      used_splits = (seen + per_split - 1) / per_split;
    }
    begin = first + split * per_split, end = min(length, begin + per_split);
    return split < used_splits;
  }
  // First position that was not in the cache before this kernel.
  __device__ __forceinline__ int first_new() const {
    return Shape::kRun ? length - first_token - tokens : Shape::kRope ? length - 1 : length;
  }
  __device__ __forceinline__ bool has_newest() const {
    return Shape::kRun ? end > first_new() : Shape::kRope && end == length;
  }
  // Last readable position of the cache; if none, one whose row is not used.
  __device__ __forceinline__ int last_stored() const {
    return Shape::kRun ? max(first_new() - 1, begin) : Shape::kRope ? max(length - 2, 0) : length - 1;
  }
  // Token within the tile; head within the KV head's group.
  __device__ __forceinline__ int token_of(int row) const { return kTokenTiles ? 0 : args.group.quotient(row); }
  __device__ __forceinline__ int head_of(int row) const { return row - token_of(row) * group; }
  __device__ __forceinline__ float* result(int row) const {
    const int head = kv_head * group + head_of(row);
    return args.out + (int64_t{first_token + token_of(row)} * args.heads + head) * width.get();
  }
  __device__ __forceinline__ __half* half_result(int row, int column) const {
    const uint32_t token = first_token + token_of(row), at = (kv_head * group + head_of(row)) * width.get() + column;
    auto* halves = reinterpret_cast<__half*>(args.out_half);
    if (args.half_layout == HalfLayout::wide)
      return halves +
             wide_place(args.tokens, args.half_tile.by, args.half_tile.quotient(static_cast<int>(token)), token, at);
    return halves + interleaved_place(args.tokens, token, at / 8) * 8 + interleaved_column(at % 8);
  }
  // Four columns of a finished row, for the next product as f16, too.
  __device__ __forceinline__ void store_result(int row, int column, const float4& four) const {
    store_latest(result(row) + column, four);
    if (!args.out_half) return;
    const auto pair = [&](int k, float a, float b) { // interleaved: columns 0 and 2 are neighbours, and 1 and 3
      *reinterpret_cast<uint32_t*>(half_result(row, column + k)) = pack_half2(a, b);
    };
    pair(0, four.x, four.z), pair(1, four.y, four.w);
  }
  __device__ __forceinline__ int64_t part_size() const { return part_floats(width.get()); }
  __device__ __forceinline__ float* parts() const {
    return args.partial + (int64_t{tile} * args.cache.heads + kv_head) * args.splits * part_size();
  }
};

} // namespace ridge::kernels::cuda
