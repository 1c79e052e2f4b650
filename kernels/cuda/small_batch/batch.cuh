// out = x Wᵀ for 2 to some 64 rows of activations: bound by the weights' bytes like the matvec, with tensor cores in
// place of integer dots.
//
// A warp_group of eight warps takes 16 rows of weights at a time; a ninth streams them, warp_tile after warp_tile,
// through a ring in shared memory, ahead even of what comes next. Lane 4 g + t decodes 32 consecutive weights of row g
// and of row g + 8; these are already the lane's part of the left operand of eight products of 16 columns each, because
// the order of columns within a sum is free: lane t of four brings weights 4 j … 4 j + 3 of its 32 into product j. The
// activations lie in shared memory, so that the right operand of the eight products is four 16-byte reads. So decoded
// weights never leave the registers.
//
// Activations for all columns may not fit: then ranges of columns are different blocks' work, and a second kernel adds
// the parts up, always in the same order; or one block's, one range after the other.
#pragma once

#include "kernels/cuda/runtime/ptx.cuh"
#include "kernels/cuda/small_batch/batch_result.cuh"
#include "kernels/cuda/small_batch/span_weights.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {

inline constexpr int kBatchStaticBytes = 1024;         // of shared memory: barriers
inline constexpr int kBatchWarps = 16, kSumPitch = 20; // floats per token of a warp's sums: no bank collides

template <typename Format>
struct BatchShape {
  static constexpr int kConsumerWarps = std::min(kTileSpans<Format> / 4, 8); // each takes 4 spans of lanes' 32 columns
  static constexpr int kConsumerThreads = kConsumerWarps * kWarp,
                       kMaxWarpGroups = std::min(kBatchWarps / kConsumerWarps, 3);
  static constexpr int kMaxThreads = kMaxWarpGroups * (kConsumerThreads + kWarp);
  static constexpr int kPieces = TileLayout<Format>::kBytes / 16;
  static constexpr int kRowPitch = 16 * (kPieces | 1); // an odd number of pieces, so that no banks collide
  static constexpr int kSlotBytes = kBatchRows * kRowPitch;
  static constexpr int kSlots = std::clamp((48 << 10) / (kMaxWarpGroups * kSlotBytes) + 1, 3, 8); // 48 KB on their way
  static constexpr int warp_group_bytes(int tile_tokens) {
    return kSlots * kSlotBytes + kConsumerWarps * tile_tokens * kSumPitch * 4;
  }
};

// Activations in shared memory: per row 64 bytes for each 32 columns, whose 16-byte pieces are exchanged by
// piece ^= (columns / 32) % 4, and half a line between rows, so that no banks collide.
__host__ __device__ constexpr int batch_x_pitch(int spans) { return (spans * 64 + 63) / 128 * 128 + 64; }

// A barrier of some of a block's threads.
__device__ __forceinline__ void named_sync(int name, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

template <typename Format, int kTileTokens>
__global__ void __launch_bounds__(BatchShape<Format>::kMaxThreads, 1)
    batch_kernel(const __grid_constant__ BatchArgs args) {
  using U = TileLayout<Format>;
  using B = BatchShape<Format>;
  constexpr int kSpans = kTileSpans<Format>; // of 32 columns per warp_tile
  constexpr int kTokenTiles = kTileTokens / 8;
  constexpr int kChains = kTokenTiles == 1 ? 2 : 1; // of products that wait for one another
  extern __shared__ uint4 shared[];
  __shared__ CopyBarrier full[B::kMaxWarpGroups][B::kSlots], empty[B::kMaxWarpGroups][B::kSlots];
  __shared__ float scales[kTileTokens];
  const GemmArgs& product = args.product;
  const int lane = threadIdx.x % kWarp, consumers = args.warp_groups * B::kConsumerThreads;
  const bool fetches = static_cast<int>(threadIdx.x) >= consumers; // a warp per warp_group
  const int warp_group = fetches ? (threadIdx.x - consumers) / kWarp : threadIdx.x / B::kConsumerThreads;
  uint8_t* ring = reinterpret_cast<uint8_t*>(shared) + warp_group * B::warp_group_bytes(kTileTokens);
  const int groups = static_cast<int>(U::groups_of(product.cols));
  const int warp_tiles = (groups + kTileGroups - 1) / kTileGroups;
  const bool experts = args.tiles != nullptr;
  if (threadIdx.x == 0) {
    for (int i = 0; i < B::kMaxWarpGroups * B::kSlots; ++i) {
      full[0][i].init(kWarp);
      empty[0][i].init(B::kConsumerWarps);
    }
  }
  __syncthreads();
  stamp(args.stamps, kStarts);
  if (!args.sibling_follows) let_successor_start();
  if (!args.follows_sibling && (experts || !fetches)) wait_for_predecessor(); // the weights are nobody's output
  if (args.sibling_follows && !fetches) let_successor_start();                // which then finds the activations there
  stamp(args.stamps, kMayGoOn);

  const int token_tiles = experts ? *args.tile_count : args.token_tiles;
  const int passes = args.serial_ranges ? args.ranges : 1;
  const int tasks = token_tiles * args.shares * (args.serial_ranges ? 1 : args.ranges);
  int slot = 0, parity = 0;
  const auto next_slot = [&] {
    if (++slot == B::kSlots) slot = 0, parity ^= 1;
  };
  // What both sides go through in the same order: tiles of tokens, ranges of columns, tiles of 16 rows.
  struct Task {
    int token_tile, first_row_tile, end_row_tile;
    ExpertTile tokens;
  };
  const auto task_of = [&](int task) {
    const int share = task % args.shares, token_tile = task / args.shares % token_tiles;
    return Task{
        token_tile, static_cast<int>(int64_t{share} * args.row_tiles / args.shares),
        static_cast<int>(int64_t{share + 1} * args.row_tiles / args.shares),
        experts ? args.tiles[token_tile]
                : ExpertTile{0, token_tile * kTileTokens, min(kTileTokens, product.tokens - token_tile * kTileTokens)}};
  };
  const auto range_of = [&](int task, int pass) {
    return args.serial_ranges ? pass : task / (args.shares * token_tiles);
  };

  if (fetches) { // eight lanes bring a row, so that a warp's rows are four times four
    constexpr int kRows = kWarp / 8;
    for (int task = blockIdx.x; task < tasks; task += gridDim.x) {
      const Task work = task_of(task);
      for (int pass = 0; pass < passes; ++pass) {
        const int first_warp_tile = range_of(task, pass) * args.range_tiles;
        const int end_warp_tile = min(warp_tiles, first_warp_tile + args.range_tiles);
        for (int row_tile = work.first_row_tile + warp_group; row_tile < work.end_row_tile;
             row_tile += args.warp_groups) {
          const uint8_t* from[kBatchRows / kRows]; // of full warp_tiles
          int in_group[kBatchRows / kRows];
#pragma unroll
          for (int i = 0; i < kBatchRows / kRows; ++i) {
            int row;
            const GemmSegment& segment = batch_row(args, row_tile, i * kRows + lane / 8, row);
            row = min(row, segment.rows - 1);
            in_group[i] = row % U::kRowBlockRows;
            from[i] = segment.weights + work.tokens.expert * args.expert_bytes +
                      (row - in_group[i]) * product.row_bytes +
                      int64_t{first_warp_tile} * (U::kRowBlockRows * U::kBytes) + lane % 8 * 16;
          }
          for (int warp_tile = first_warp_tile; warp_tile < end_warp_tile; ++warp_tile) {
            const int tile_groups = min(kTileGroups, groups - warp_tile * kTileGroups);
            const int tile_bytes = U::rounded(Layout<Format>::tile_payload(tile_groups));
            const int bytes = tile_bytes - lane % 8 * 16;
            uint8_t* to = ring + slot * B::kSlotBytes + lane / 8 * B::kRowPitch + lane % 8 * 16;
            empty[warp_group][slot].wait(parity ^ 1);
#pragma unroll
            for (int i = 0; i < kBatchRows / kRows; ++i) {
#pragma unroll
              for (int at = 0; at < U::kBytes; at += 128)
                if (at < bytes)
                  copy_async_16(to + i * kRows * B::kRowPitch + at, from[i] + in_group[i] * tile_bytes + at);
              from[i] += U::kRowBlockRows * U::kBytes;
            }
            full[warp_group][slot].arrive_after_copies();
            next_slot();
          }
        }
      }
    }
    return;
  }

  const int in_group = threadIdx.x % B::kConsumerThreads, warp = in_group / kWarp, g = lane / 4, t = lane % 4;
  auto* sums = reinterpret_cast<float*>(ring + B::kSlots * B::kSlotBytes); // [warps][tokens][kSumPitch]
  uint8_t* x_tile = reinterpret_cast<uint8_t*>(shared) + args.warp_groups * B::warp_group_bytes(kTileTokens);
  const int x_pitch = batch_x_pitch(args.range_tiles * kSpans);
  constexpr int kAllConsumers = 15; // the name of their barrier; warp_groups' own are 1, 2, …
  for (int task = blockIdx.x; task < tasks; task += gridDim.x) {
    const Task work = task_of(task);
    const auto slot_of = [&](int i) { return experts ? args.order[work.tokens.first + i] : work.tokens.first + i; };
    // Sums over some of the columns of a row tile; serial_ranges the one that a block adds them up in.
    constexpr int kPart = kTileTokens * kBatchRows;
    const auto part_of = [&](int row_tile, int range) {
      const int longest_share = (args.row_tiles + args.shares - 1) / args.shares;
      return args.partial + (args.serial_ranges
                                 ? int64_t{blockIdx.x} * longest_share + row_tile - work.first_row_tile
                                 : (int64_t{work.token_tile} * args.row_tiles + row_tile) * args.ranges + range) *
                                kPart;
    };
    for (int pass = 0; pass < passes; ++pass) {
      const int range = range_of(task, pass);
      const int first_warp_tile = range * args.range_tiles,
                end_warp_tile = min(warp_tiles, first_warp_tile + args.range_tiles);

      // The activations of this range: a warp brings a row. Behind the last column the weights are zero.
      named_sync(kAllConsumers, consumers);
      const int x_first = first_warp_tile * kSpans * 4; // in pieces of 16 bytes
      const int x_pieces =
          min((end_warp_tile - first_warp_tile) * kSpans * 4, static_cast<int>(product.x_stride / 8) - x_first);
      for (int token = threadIdx.x / kWarp; token < work.tokens.count; token += consumers / kWarp) {
        const auto* from = reinterpret_cast<const uint4*>(product.x + slot_of(token) / args.used * product.x_stride);
        for (int piece = lane; piece < x_pieces; piece += kWarp)
          copy_async_16(x_tile + token * x_pitch + piece / 4 * 64 + ((piece ^ piece / 4) & 3) * 16,
                        from + x_first + piece);
      }
      if (static_cast<int>(threadIdx.x) < work.tokens.count)
        scales[threadIdx.x] = batch_scale(args, slot_of(threadIdx.x));
      copy_async_commit();
      copy_async_wait<0>();
      named_sync(kAllConsumers, consumers);

      for (int row_tile = work.first_row_tile + warp_group; row_tile < work.end_row_tile;
           row_tile += args.warp_groups) {
        // This thread's part of the tile's results, or of its sums over this range.
        const bool last = passes == 1 ? args.ranges == 1 : pass == passes - 1, halves = last && args.swiglu;
        const int row_bits = halves ? 3 : 4, row_mask = (1 << row_bits) - 1, elements = work.tokens.count << row_bits;
        float* part = args.ranges > 1 ? part_of(row_tile, range) : nullptr;
        // Looked up before the sums are made where a thread has one element; more would take registers away from them.
        constexpr bool kEarly = kTileTokens * kBatchRows <= B::kConsumerThreads;
        struct Element {
          int token, in_tile;
          float before[2];
          BatchResult result;
        };
        const auto look_up = [&](int i) {
          Element e{i >> row_bits, i & row_mask, {0, 0}, {}};
          if (last) e.result.look_up(args, row_tile, e.in_tile, slot_of(e.token));
          if (args.serial_ranges && pass > 0) {
            e.before[0] = part[e.token * kBatchRows + e.in_tile];
            if (halves) e.before[1] = part[e.token * kBatchRows + e.in_tile + 8];
          }
          return e;
        };
        Element early = {};
        if (kEarly && in_group < elements) early = look_up(in_group);

        float sum[kChains][kTokenTiles][4];
#pragma unroll
        for (auto& chain : sum)
          for (auto& tile_sum : chain)
            for (float& v : tile_sum) v = 0;
        for (int warp_tile = first_warp_tile; warp_tile < end_warp_tile; ++warp_tile) {
          const uint8_t* rows = ring + slot * B::kSlotBytes + g * B::kRowPitch;
          const uint8_t* x = x_tile + g * x_pitch + (warp_tile - first_warp_tile) * kSpans * 64;
          full[warp_group][slot].wait(parity);
          const auto multiply = [&](int tile_groups) {
#pragma unroll
            for (int first = 0; first < kSpans; first += 4 * B::kConsumerWarps) {
              const int span = first + 4 * warp + t; // of 32 columns, in the warp_tile
              if (tile_groups < kTileGroups && (first + 4 * warp) * 32 >= tile_groups * Layout<Format>::kGroupWeights)
                continue;
              uint32_t a[2][16];
#pragma unroll
              for (int half = 0; half < 2; ++half) {
                SpanWeights<Format> weights;
                weights.fetch(rows + half * 8 * B::kRowPitch, tile_groups, span);
                weights.halves(a[half], span);
              }
#pragma unroll
              for (int n = 0; n < kTokenTiles; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                  const uint4 b = *reinterpret_cast<const uint4*>(x + n * 8 * x_pitch + span * 64 + (i ^ t) * 16);
                  const uint32_t first_a[4] = {a[0][4 * i], a[1][4 * i], a[0][4 * i + 1], a[1][4 * i + 1]};
                  const uint32_t second_a[4] = {a[0][4 * i + 2], a[1][4 * i + 2], a[0][4 * i + 3], a[1][4 * i + 3]};
                  mma_16x8x16(sum[0][n], first_a, b.x, b.y);
                  mma_16x8x16(sum[kChains - 1][n], second_a, b.z, b.w);
                }
            }
          };
          const int tile_groups = groups - warp_tile * kTileGroups;
          tile_groups >= kTileGroups ? multiply(kTileGroups) : multiply(tile_groups);
          __syncwarp();
          if (lane == 0) empty[warp_group][slot].arrive();
          next_slot();
        }

        // The warps' sums, added in their order.
        named_sync(warp_group + 1, B::kConsumerThreads); // those of the tile before have been read
#pragma unroll
        for (int n = 0; n < kTokenTiles; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            sums[(warp * kTileTokens + 8 * n + 2 * t + i % 2) * kSumPitch + g + i / 2 * 8] =
                kChains == 1 ? sum[0][n][i] : sum[0][n][i] + sum[kChains - 1][n][i];
        named_sync(warp_group + 1, B::kConsumerThreads);
        for (int i = in_group; i < elements; i += B::kConsumerThreads) {
          const Element e = kEarly ? early : look_up(i);
          const auto total_of = [&](int of) {
            float total = of == e.in_tile ? e.before[0] : e.before[1];
#pragma unroll
            for (int w = 0; w < B::kConsumerWarps; ++w) total += sums[(w * kTileTokens + e.token) * kSumPitch + of];
            return total;
          };
          if (last)
            e.result.write(args, row_tile, e.in_tile, scales[e.token], total_of);
          else
            part[e.token * kBatchRows + e.in_tile] = total_of(e.in_tile);
        }
      }
    }
  }
  if (args.follows_sibling) wait_for_predecessor(); // so that what comes behind this kernel comes behind both
  stamp_latest(args.stamps, kEnds);
}

// Cuts up `args` for a device. Returns the bytes of shared memory, or 0 where there is too little of it for tiles of so
// many tokens.
template <typename Format>
int plan_batch(const Launch& launch, BatchArgs& args, int tile_tokens) {
  using B = BatchShape<Format>;
  const int limit = launch.shared_per_block - kBatchStaticBytes;
  const int warp_tiles =
      static_cast<int>((TileLayout<Format>::groups_of(args.product.cols) + kTileGroups - 1) / kTileGroups);
  const auto tiles = [](int n, int per_tile) { return (n + per_tile - 1) / per_tile; };
  const auto bytes = [&](int warp_groups, int range) {
    return warp_groups * B::warp_group_bytes(tile_tokens) + tile_tokens * batch_x_pitch(range * kTileSpans<Format>);
  };
  const bool experts = args.tiles != nullptr;
  args.token_tiles = experts ? 1 : tiles(args.product.tokens, tile_tokens);
  args.row_tiles = static_cast<int>(batch_row_tiles(args.product, args.swiglu));
  // Costs are in warp_tiles of 16 rows that a multiprocessor brings in; a partial sum, written and read, is a part of
  // one.
  const double part_cost = tile_tokens * kBatchRows * 8.0 / (kBatchRows * TileLayout<Format>::kBytes);
  constexpr double kPassCost = 10, kFinishCost = 8; // activations exchanged, nothing else coming in; another kernel
  double best = 0;
  for (int warp_groups = B::kMaxWarpGroups; warp_groups > 0; --warp_groups)
    for (int range = warp_tiles; range > 0; --range) {
      const int ranges = tiles(warp_tiles, range);
      if (bytes(warp_groups, range) > limit || tiles(warp_tiles, ranges) != range) continue;
      for (const bool serial_ranges : {false, true}) {
        if (serial_ranges ? ranges == 1 && !experts : ranges > 1 && experts) continue;
        const int in_parallel = args.token_tiles * (serial_ranges ? 1 : ranges);
        const int shares = std::min(experts ? 4 : std::max(1, launch.sm_count / in_parallel), args.row_tiles);
        const int rows = tiles(args.row_tiles, shares), rounds = tiles(in_parallel * shares, launch.sm_count);
        const int64_t parts = ranges == 1     ? 0
                              : serial_ranges ? int64_t{launch.sm_count} * rows
                                              : int64_t{args.token_tiles} * args.row_tiles * ranges;
        if (parts * tile_tokens * kBatchRows * 4 > kBatchScratchBytes) continue;
        const int passes = serial_ranges ? ranges : 1;
        const double cost = rounds * (passes * range * (rows + tiles(rows, warp_groups)) + kPassCost * passes +
                                      (ranges > 1 ? part_cost * rows * passes : 0)) +
                            (ranges > 1 && !serial_ranges ? kFinishCost : 0);
        if (best != 0 && cost >= best) continue;
        best = cost;
        args.warp_groups = warp_groups;
        args.range_tiles = range;
        args.ranges = ranges;
        args.serial_ranges = serial_ranges;
        args.shares = shares;
      }
    }
  return best == 0 ? 0 : bytes(args.warp_groups, args.range_tiles);
}

} // namespace ridge::kernels::cuda
