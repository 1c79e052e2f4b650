// out = x Wᵀ for 2 to some 64 rows of activations: bound by the weights' bytes like the matvec, with tensor cores in
// place of integer dots.
//
// A group of four warps takes 16 rows of weights at a time and streams them, unit after unit, through a ring in shared
// memory. Lane 4 g + t decodes 32 consecutive weights of row g and of row g + 8; these are already the lane's part of
// the left operand of eight products of 16 columns each, because the order of columns within a sum is free: lane t of
// four brings weights 4 j … 4 j + 3 of its 32 into product j. The activations lie in shared memory, so that the right
// operand of the eight products is four 16-byte reads. So decoded weights never leave the registers.
//
// Activations for all columns may not fit: then ranges of columns are different blocks' work, and the last block to
// finish a tile adds the parts up, always in the same order.
#pragma once

#include "kernels/cuda/batch.h"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/tile_weights.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {

inline constexpr int kBatchSlots = 3, kSumPitch = 20; // floats per token of a warp's sums: no bank collides
inline constexpr int kBatchStaticBytes = 64;          // of shared memory, at most

template <typename Format>
struct BatchUnit {
  static constexpr int kPieces = Units<Format>::kBytes / 16;
  static constexpr int kRowPitch = 16 * (kPieces | 1); // an odd number of pieces, so that no banks collide
  static constexpr int kSlotBytes = kBatchRows * kRowPitch;
};

// Bytes from a row of activations to the next: half a line further, modulo whole lines.
__host__ __device__ constexpr int batch_x_pitch(int pairs) { return (pairs * kPairBytes + 63) / 128 * 128 + 64; }

template <typename Format>
constexpr int batch_group_bytes(int tile_tokens) {
  return kBatchSlots * BatchUnit<Format>::kSlotBytes + 4 * tile_tokens * kSumPitch * 4;
}

// A barrier of one group's threads.
__device__ __forceinline__ void group_sync(int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(kBatchGroup) : "memory");
}

template <typename Format, int kTileTokens>
__global__ void __launch_bounds__(4 * kBatchGroup, 1) batch_kernel(const __grid_constant__ BatchArgs args) {
  using U = Units<Format>;
  using B = BatchUnit<Format>;
  constexpr int kGroups = kUnitGroups<Format>; // of 32 columns per unit
  constexpr int kTokenTiles = kTileTokens / 8;
  extern __shared__ uint4 shared[];
  __shared__ int last_of_tile[4];
  const GemmArgs& product = args.product;
  const int lane = threadIdx.x % kWarp, group = threadIdx.x / kBatchGroup, in_group = threadIdx.x % kBatchGroup;
  const int warp = in_group / kWarp, g = lane / 4, t = lane % 4;
  uint8_t* ring = reinterpret_cast<uint8_t*>(shared) + group * batch_group_bytes<Format>(kTileTokens);
  auto* sums = reinterpret_cast<float*>(ring + kBatchSlots * B::kSlotBytes); // [4 warps][tokens][kSumPitch]
  uint8_t* x_tile = reinterpret_cast<uint8_t*>(shared) + args.groups * batch_group_bytes<Format>(kTileTokens);
  const int items = static_cast<int>(U::items_of(product.cols));
  const int units = (items + kUnitItems - 1) / kUnitItems;
  const int x_pitch = batch_x_pitch(args.range_units * kGroups);
  const bool experts = args.tiles != nullptr;
  let_successor_start();
  if (experts) wait_for_predecessor();
  bool waited = experts;

  const int token_tiles = experts ? *args.tile_count : args.token_tiles;
  const int passes = args.in_turn ? args.ranges : 1;
  const int tasks = token_tiles * args.shares * (args.in_turn ? 1 : args.ranges);
  for (int task = blockIdx.x; task < tasks; task += gridDim.x) {
    const int share = task % args.shares, token_tile = task / args.shares % token_tiles;
    ExpertTile tile = {0, token_tile * kTileTokens, min(kTileTokens, product.tokens - token_tile * kTileTokens)};
    if (experts) tile = args.tiles[token_tile];
    const auto slot_of = [&](int i) { return experts ? args.order[tile.first + i] : tile.first + i; };
    const int first_tile = static_cast<int>(int64_t{share} * args.row_tiles / args.shares);
    const int end_tile = static_cast<int>(int64_t{share + 1} * args.row_tiles / args.shares);
    for (int pass = 0; pass < passes; ++pass) {
      const int range = args.in_turn ? pass : task / (args.shares * token_tiles);
      const int first_unit = range * args.range_units, end_unit = min(units, first_unit + args.range_units);
      const int range_size = end_unit - first_unit;
      const int my_tiles = max(0, (end_tile - first_tile - group + args.groups - 1) / args.groups);

      // Segment and row of the tile's row i.
      const auto locate = [&](int row_tile, int i, int& row) -> const GemmSegment& {
        if (args.swiglu) {
          row = row_tile * (kBatchRows / 2) + i % 8;
          return product.segment[i / 8];
        }
        int s = 0;
        for (int in_segment; row_tile >= (in_segment = (product.segment[s].rows + kBatchRows - 1) / kBatchRows); ++s)
          row_tile -= in_segment;
        row = row_tile * kBatchRows + i;
        return product.segment[s];
      };

      // Fetching runs kBatchSlots - 1 units ahead; eight threads fetch a row.
      int fetch_tile = first_tile + group, fetch_unit = first_unit, fetch_left = my_tiles * range_size, fetch_slot = 0;
      const uint8_t* fetch_from = nullptr;
      const auto fetch_next = [&] {
        if (fetch_left > 0) {
          --fetch_left;
          if (fetch_unit == first_unit) {
            int row;
            const GemmSegment& segment = locate(fetch_tile, in_group / 8, row);
            fetch_from = segment.weights + tile.expert * args.expert_bytes +
                         min(row, segment.rows - 1) * product.row_bytes + int64_t{first_unit} * U::kBytes +
                         in_group % 8 * 16;
          }
          const int unit_items = min(kUnitItems, items - fetch_unit * kUnitItems);
          const int bytes = unit_items == kUnitItems ? U::kBytes : U::rounded(Layout<Format>::unit_payload(unit_items));
          uint8_t* to = ring + fetch_slot * B::kSlotBytes + in_group / 8 * B::kRowPitch + in_group % 8 * 16;
#pragma unroll
          for (int at = 0; at < U::kBytes; at += 128)
            if (at + in_group % 8 * 16 < bytes) copy_async_16(to + at, fetch_from + at);
          fetch_from += U::kBytes;
          if (++fetch_slot == kBatchSlots) fetch_slot = 0;
          if (++fetch_unit == end_unit) fetch_unit = first_unit, fetch_tile += args.groups;
        }
        copy_async_commit();
      };
#pragma unroll 1
      for (int i = 0; i < kBatchSlots - 1; ++i) fetch_next();
      if (!waited) wait_for_predecessor(); // the weights are nobody's output
      waited = true;

      // The activations of this range.
      __syncthreads();
      const int pieces = range_size * kGroups * 4; // of 16 bytes
      const int x_pieces = static_cast<int>(product.x_stride / 8), x_first = first_unit * kGroups * 4;
      for (int i = threadIdx.x; i < tile.count * pieces; i += blockDim.x) {
        const int token = i / pieces, piece = i % pieces;
        if (x_first + piece >= x_pieces) continue; // past the last column: there the weights are zero
        const auto* from = reinterpret_cast<const uint4*>(product.x + slot_of(token) / args.used * product.x_stride);
        *reinterpret_cast<uint4*>(x_tile + token * x_pitch + piece / 4 * kPairBytes + piece % 4 * 16) =
            from[x_first + piece];
      }
      __syncthreads();

      int slot = 0;
      for (int row_tile = first_tile + group; row_tile < end_tile; row_tile += args.groups) {
        float sum[kTokenTiles][4];
#pragma unroll
        for (int n = 0; n < kTokenTiles; ++n)
          for (float& v : sum[n]) v = 0;
        for (int unit = first_unit; unit < end_unit; ++unit) {
          copy_async_wait<kBatchSlots - 2>();
          group_sync(group); // the unit has landed for all, and the one before has been used by all
          fetch_next();
          const int unit_items = min(kUnitItems, items - unit * kUnitItems);
          const uint8_t* rows = ring + slot * B::kSlotBytes + g * B::kRowPitch;
          if (++slot == kBatchSlots) slot = 0;
#pragma unroll
          for (int first = 0; first < kGroups; first += 16) {
            const int pair = first + 4 * warp + t; // of 32 columns, in the unit
            if (first + 4 * warp >= min(kGroups, (unit_items * Layout<Format>::kItemWeights + 31) / 32)) continue;
            uint32_t a[2][16];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              TileWeights<Format> weights;
              weights.fetch(rows + half * 8 * B::kRowPitch, unit_items, pair);
              weights.halves(a[half], pair);
            }
            const uint8_t* x = x_tile + g * x_pitch + ((unit - first_unit) * kGroups + pair) * kPairBytes;
#pragma unroll
            for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
              for (int i = 0; i < 4; ++i) {
                const uint4 b = *reinterpret_cast<const uint4*>(x + n * 8 * x_pitch + i * 16);
                const uint32_t first_a[4] = {a[0][4 * i], a[1][4 * i], a[0][4 * i + 1], a[1][4 * i + 1]};
                const uint32_t second_a[4] = {a[0][4 * i + 2], a[1][4 * i + 2], a[0][4 * i + 3], a[1][4 * i + 3]};
                mma_16x8x16(sum[n], first_a, b.x, b.y);
                mma_16x8x16(sum[n], second_a, b.z, b.w);
              }
            }
          }
        }

        // The four warps' sums, added in their order.
#pragma unroll
        for (int n = 0; n < kTokenTiles; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            sums[(warp * kTileTokens + 8 * n + 2 * t + i % 2) * kSumPitch + g + i / 2 * 8] = sum[n][i];
        group_sync(group);
        const auto total_of = [&](int token, int i) {
          float total = 0;
#pragma unroll
          for (int w = 0; w < 4; ++w) total += sums[(w * kTileTokens + token) * kSumPitch + i];
          return total;
        };
        constexpr int kPart = kTileTokens * kBatchRows;
        const int tile_index = token_tile * args.row_tiles + row_tile;
        const bool in_parts = args.ranges > 1;
        float* parts = nullptr; // this tile's, range after range; in_turn one that they are added up in
        bool finish = true;
        if (in_parts) {
          const int longest_share = (args.row_tiles + args.shares - 1) / args.shares;
          parts = args.partial + (args.in_turn ? int64_t{blockIdx.x} * longest_share + row_tile - first_tile
                                               : int64_t{tile_index} * args.ranges) *
                                     kPart;
          if (args.in_turn) {
            finish = pass == passes - 1;
          } else {
            for (int i = in_group; i < tile.count * kBatchRows; i += kBatchGroup)
              __stcg(parts + range * kPart + i, total_of(i / kBatchRows, i % kBatchRows));
            __threadfence();
            group_sync(group);
            if (in_group == 0)
              last_of_tile[group] = atomicAdd(&args.tickets[tile_index], 1) == static_cast<unsigned>(args.ranges - 1);
            group_sync(group);
            finish = last_of_tile[group];
            if (finish) __threadfence();
            if (finish && in_group == 0) args.tickets[tile_index] = 0;
          }
        }
        const auto result_of = [&](int token, int i) {
          if (!in_parts) return total_of(token, i);
          const int at = token * kBatchRows + i;
          if (args.in_turn) return total_of(token, i) + (pass > 0 ? parts[at] : 0);
          float total = 0;
          for (int r = 0; r < args.ranges; ++r) total += __ldcg(parts + r * kPart + at);
          return total;
        };
        if (!finish && args.in_turn)
          for (int i = in_group; i < tile.count * kBatchRows; i += kBatchGroup)
            parts[i] = result_of(i / kBatchRows, i % kBatchRows);
        if (finish) {
          const int rows = args.swiglu ? kBatchRows / 2 : kBatchRows;
          for (int i = in_group; i < tile.count * rows; i += kBatchGroup) {
            const int token = i / rows, in_tile = i % rows, slot_id = slot_of(token);
            int row;
            const GemmSegment& segment = locate(row_tile, in_tile, row);
            if (row >= segment.rows) continue;
            const float scale = exp2f(static_cast<float>(product.exponent[slot_id / args.used] - kWeightExponent));
            float value = result_of(token, in_tile) * scale;
            if (segment.bias) value += segment.bias[row];
            const int64_t at = int64_t{slot_id} * segment.rows + row;
            if (args.swiglu) {
              float up = result_of(token, in_tile + 8) * scale;
              if (product.segment[1].bias) up += product.segment[1].bias[row];
              value = value / (1 + __expf(-value)) * up;
            }
            if (product.residual) value += product.residual[at];
            segment.out[at] = value;
          }
        }
      }
      copy_async_wait<0>();
    }
  }
  if (!waited) wait_for_predecessor();
}

// Cuts up `args` for a device. Returns the bytes of shared memory, or 0 where there is too little of it for tiles of so
// many tokens.
template <typename Format>
int plan_batch(const Launch& launch, BatchArgs& args, int tile_tokens) {
  const int limit = launch.shared_per_block - kBatchStaticBytes;
  const int units = static_cast<int>((Units<Format>::items_of(args.product.cols) + kUnitItems - 1) / kUnitItems);
  const auto tiles = [](int n, int per_tile) { return (n + per_tile - 1) / per_tile; };
  const auto bytes = [&](int groups, int range) {
    return groups * batch_group_bytes<Format>(tile_tokens) + tile_tokens * batch_x_pitch(range * kUnitGroups<Format>);
  };
  const bool experts = args.tiles != nullptr;
  args.token_tiles = experts ? 1 : tiles(args.product.tokens, tile_tokens);
  args.row_tiles = static_cast<int>(batch_row_tiles(args.product, args.swiglu));
  // Costs are in units of 16 rows that a multiprocessor brings in; a partial sum, written and read, is a part of one.
  const double part_cost = tile_tokens * kBatchRows * 8.0 / (kBatchRows * Units<Format>::kBytes);
  constexpr double kPassCost = 4; // nothing comes in while activations are exchanged
  double best = 0;
  for (int groups = 4; groups > 0; --groups)
    for (int range = units; range > 0; --range) {
      const int ranges = tiles(units, range);
      if (bytes(groups, range) > limit || tiles(units, ranges) != range) continue;
      for (const bool in_turn : {false, true}) {
        if (in_turn ? ranges == 1 && !experts : ranges > 1 && experts) continue;
        const int in_parallel = args.token_tiles * (in_turn ? 1 : ranges);
        const int shares = std::min(experts ? 4 : std::max(1, launch.sm_count / in_parallel), args.row_tiles);
        const int rows = tiles(args.row_tiles, shares), rounds = tiles(in_parallel * shares, launch.sm_count);
        const int64_t parts = ranges == 1 ? 0
                              : in_turn   ? int64_t{launch.sm_count} * rows
                                          : int64_t{args.token_tiles} * args.row_tiles * ranges;
        if (parts * tile_tokens * kBatchRows * 4 > kBatchScratchBytes) continue;
        const int passes = in_turn ? ranges : 1;
        const double cost = rounds * (passes * range * (rows + tiles(rows, groups)) + kPassCost * passes +
                                      (ranges > 1 ? part_cost * rows * passes : 0));
        if (best != 0 && cost >= best) continue;
        best = cost;
        args.groups = groups;
        args.range_units = range;
        args.ranges = ranges;
        args.in_turn = in_turn;
        args.shares = shares;
      }
    }
  return best == 0 ? 0 : bytes(args.groups, args.range_units);
}

} // namespace ridge::kernels::cuda
