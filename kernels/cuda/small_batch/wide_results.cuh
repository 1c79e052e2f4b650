// The tasks of wide_batch.cuh's blocks, and how they finish results.
#pragma once

#include "kernels/cuda/products/half_layout.h"
#include "kernels/cuda/small_batch/batch_result.cuh"

namespace ridge::kernels::cuda {

struct WideArgs {
  int log2_parts;
  Divisor row_blocks;
  int piece_pairs, longer_pieces; // the first longer_pieces have one pair of units more
  BatchArgs batch;                // product.x is HalfLayout::wide
};

template <int kTileTokens>
struct WideShape {
  static constexpr int kTokens = kTileTokens;
  static constexpr int kUnitBytes = kWideColumns * kTokens * 2, kTileBytes = kUnitBytes / 2;
  static constexpr int kSlots = wide_slots(kTokens);
  static constexpr int kGroups = wide_groups(kTokens), kThreads = kGroups * 128;
  static constexpr int kPitch = kGroups * kWideRows + 4; // floats of a token's sums
  // Two warpgroups decode during their own products; three or four, during those of others.
  static constexpr bool kOverlaps = kGroups == 2;
  static constexpr bool kCounted = kTokens == kCountedTile; // multiplies as many tokens as there are
};

#ifdef RIDGE_HAS_WGMMA

struct WideTask {
  int row_tile, first_row_tile; // of the warp, of the block; may be past the end
  int group, part, range, token_tile;
  int first_unit, units; // first_unit is even

  __device__ __forceinline__ WideTask(const WideArgs& args, int groups) {
    const int row_groups = groups >> args.log2_parts;
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0); // uniform in a warp, for the compiler
    const bool experts = args.batch.tiles != nullptr;
    int block = blockIdx.x;
    if (experts) {
      token_tile = args.row_blocks.quotient(block), range = 0;
      block -= token_tile * args.row_blocks.by;
    } else {
      const int of_all = args.batch.token_tile_count.quotient(block);
      token_tile = block - of_all * args.batch.token_tiles, range = args.row_blocks.quotient(of_all);
      block = of_all - range * args.row_blocks.by;
    }
    group = warpgroup >> args.log2_parts, part = warpgroup - (group << args.log2_parts);
    first_row_tile = block * row_groups * 4;
    row_tile = first_row_tile + group * 4 + threadIdx.x / kWarp % 4;
    const int all = (args.batch.product.cols + kWideColumns - 1) / kWideColumns,
              piece = (range << args.log2_parts) + part;
    const auto first_of = [&](int n) { return min(all, 2 * (n * args.piece_pairs + min(n, args.longer_pieces))); };
    first_unit = first_of(piece), units = first_of(piece + 1) - first_unit;
  }

  // Count 0: nothing to do. The loads do not wait for each other.
  __device__ __forceinline__ ExpertTile tokens(const BatchArgs& args, int tile_tokens) const {
    if (args.tiles) {
      const ExpertTile tile = args.tiles[token_tile];
      return token_tile < *args.tile_count ? tile : ExpertTile{};
    }
    const int first = token_tile * tile_tokens;
    return {0, first, min(tile_tokens, args.product.tokens - first)};
  }
};

// Copied asynchronously; no thread waits before the end.
template <typename Shape>
struct WideTokens {
  static constexpr int kTokens = Shape::kTokens;
  float4 scale[kTokens / 4];
  char4 exponent[kTokens / 4];
  int slot[kTokens];

  __device__ __forceinline__ void request(const BatchArgs& args, const ExpertTile& tile, int number) {
    const int i = threadIdx.x;
    if (i < tile.count && args.tiles)
      copy_async_4(slot + i, args.order + tile.first + i);
    else if (i < tile.count)
      slot[i] = tile.first + i;
    if (i < kTokens / 4) copy_async_4(exponent + i, args.product.exponent + number * kTokens + 4 * i);
    copy_async_commit();
  }
  // By all threads, before a barrier.
  __device__ __forceinline__ void arrive() {
    copy_async_wait<0>();
    if (threadIdx.x >= kTokens / 4) return;
    const char4 e = exponent[threadIdx.x];
    scale[threadIdx.x] = {batch_scale(e.x), batch_scale(e.y), batch_scale(e.z), batch_scale(e.w)};
  }
};

__device__ __forceinline__ float4 operator*(float4 a, float b) { return {a.x * b, a.y * b, a.z * b, a.w * b}; }

__device__ __forceinline__ float4 four_at(const float* from) { return *reinterpret_cast<const float4*>(from); }

// Writes results of four consecutive rows from row `i` of a tile of 16; some may be past the end. If gated, those are
// gates, and their ups are 8 rows later.
template <bool kGated>
class WideRows {
 public:
  __device__ __forceinline__ WideRows(const BatchArgs& batch, int row_tile, int i, int expert) {
    const GemmSegment& segment = batch_row(batch, row_tile, i, row_);
    out_ = segment.out, rows_ = segment.rows;
    vector_ = rows_ % 4 == 0 && reinterpret_cast<uintptr_t>(out_) % 16 == 0 &&
              reinterpret_cast<uintptr_t>(batch.product.residual) % 16 == 0;
    bias_ = bias_of_rows(segment, expert);
    if constexpr (kGated) up_bias_ = bias_of_rows(batch.product.segment[1], expert);
  }
  __device__ __forceinline__ void write(const BatchArgs& batch, int slot, float4 sum, float4 up) const {
    float4 result = sum + bias_;
    if constexpr (kGated) {
      up = up + up_bias_;
      result = {batch.glu(result.x, up.x), batch.glu(result.y, up.y), batch.glu(result.z, up.z),
                batch.glu(result.w, up.w)};
    }
    const int64_t at = int64_t{slot} * rows_ + row_;
    if (row_ >= rows_) return;
    const float* residual = batch.product.residual;
    if (vector_) {
      if (residual) result = result + four_at(residual + at);
      *reinterpret_cast<float4*>(out_ + at) = result;
      return;
    }
    const float of_row[4] = {result.x, result.y, result.z, result.w};
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (row_ + i < rows_) out_[at + i] = residual ? of_row[i] + residual[at + i] : of_row[i];
  }

 private:
  __device__ __forceinline__ float4 bias_of_rows(const GemmSegment& of, int expert) const {
    return {bias_of(of, row_, expert), bias_of(of, row_ + 1, expert), bias_of(of, row_ + 2, expert),
            bias_of(of, row_ + 3, expert)};
  }

  float* out_;
  int row_, rows_;
  bool vector_;
  float4 bias_, up_bias_;
};

// A block's sums in shared memory, [tokens][rows of all warpgroups]. Between tokens 16 bytes avoid bank conflicts. A
// thread finishes the same four rows of every `step`th token, so results are written in whole lines. The code is short:
// it runs once per block, so fetching its instructions takes most of its time.
template <typename Shape, bool kGated>
__device__ __forceinline__ void write_wide(const WideArgs& args, const WideTask& work, const ExpertTile& tile,
                                           const float* shared, const WideTokens<Shape>& tokens) {
  constexpr int kPitch = Shape::kPitch, kOfTile = kGated ? 2 : 4, kQuads = kWideRows / kBatchRows * kOfTile;
  const BatchArgs& batch = args.batch;
  const int parts = 1 << args.log2_parts, row_groups = Shape::kGroups >> args.log2_parts;
  const int quad = threadIdx.x % kQuads, rest = threadIdx.x / kQuads, first_token = rest / row_groups,
            group = rest - first_token * row_groups, step = Shape::kThreads / kQuads / row_groups;
  const int row_tile = work.first_row_tile + group * 4 + quad / kOfTile, in_tile = quad % kOfTile * 4;
  if (row_tile >= batch.row_tiles) return;
  const float* from = shared + group * parts * kWideRows + quad / kOfTile * kBatchRows + in_tile;
  const auto sum_of = [&](int token, int row) {
    const float* part = from + token * kPitch + row;
    float4 sum = four_at(part);
#pragma unroll 1
    for (int i = 1; i < parts; ++i) sum = sum + four_at(part + i * kWideRows);
    return sum * reinterpret_cast<const float*>(tokens.scale)[token];
  };
  if (batch.ranges > 1) {
    float* to = batch.partial + batch_sums_at(batch, Shape::kTokens, work.range, work.token_tile * Shape::kTokens) +
                row_tile * kBatchRows + in_tile;
    for (int token = first_token; token < tile.count; token += step)
#pragma unroll
      for (int row = 0; row <= (kGated ? 8 : 0); row += 8) {
        const float4 sum = sum_of(token, row);
        *reinterpret_cast<float4*>(to + int64_t{token} * batch.row_tiles * kBatchRows + row) = sum;
      }
    return;
  }
  const WideRows<kGated> rows(batch, row_tile, in_tile, tile.expert);
#pragma unroll(kGated ? 2 : 4)
  for (int token = first_token; token < tile.count; token += step)
    rows.write(batch, tokens.slot[token], sum_of(token, 0), kGated ? sum_of(token, 8) : float4{});
}

// `sum` as wgmma leaves it: rows g and g + 8 of the warp's 16, each for tokens 8 n + 2 t and 8 n + 2 t + 1 (g = lane /
// 4, t = lane % 4).
template <typename Shape, int kSums>
__device__ __forceinline__ void keep_sums(float* shared, const float (&sum)[kSums]) {
  constexpr int kPitch = Shape::kPitch;
  float* to = shared + threadIdx.x / kWarp * kBatchRows + threadIdx.x % kWarp / 4 + threadIdx.x % 4 * 2 * kPitch;
#pragma unroll
  for (int n = 0; n < kSums / 4; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) to[(8 * n + i % 2) * kPitch + i / 2 * 8] = sum[4 * n + i];
}

#endif

} // namespace ridge::kernels::cuda
