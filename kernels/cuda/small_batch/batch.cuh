// out = x Wᵀ for 2 to some 64 rows of activations: bound by the weights' bytes like the matvec, with tensor cores in
// place of integer dot products.
//
// A warp group multiplies 16 rows of weights at a time: up to eight consumer warps decode and multiply, one more warp
// streams the weights, warp tile after warp tile, through a ring in shared memory, ahead even into the next rows. Lane
// 4 g + t decodes a span, 32 consecutive weights, of row g and of row g + 8. These are the lane's part of the left
// operand of eight products of 16 columns each, because the order of columns within a sum is free: lane t of four
// brings weights 4 j to 4 j + 3 of its span into product j. The activations lie in shared memory, so that the right
// operand of the eight products is four 16-byte reads. Decoded weights never leave the registers.
//
// Activations of all columns may not fit into shared memory. Then ranges of columns are the work of different blocks,
// and a second kernel adds the partial sums, always in the same order; or one block takes one range after the other.
#pragma once

#include "kernels/cuda/runtime/ptx.cuh"
#include "kernels/cuda/small_batch/batch_plan.cuh"
#include "kernels/cuda/small_batch/batch_result.cuh"

namespace ridge::kernels::cuda {

// A barrier of some of a block's threads.
__device__ __forceinline__ void named_sync(int name, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

// A tile of tokens and a share of the row tiles.
struct BatchTask {
  int token_tile, first_row_tile, end_row_tile;
  ExpertTile tokens;
};

// The tasks of a launch. Producers and consumers go through them in the same order: tiles of tokens, then ranges of
// columns (passes), then tiles of 16 rows.
template <int kTileTokens>
struct BatchTasks {
  const BatchArgs& args;
  bool experts;
  int token_tiles, passes;

  __device__ __forceinline__ explicit BatchTasks(const BatchArgs& args) : args(args), experts(args.tiles != nullptr) {
    token_tiles = experts ? *args.tile_count : args.token_tiles;
    passes = args.serial_ranges ? args.ranges : 1;
  }
  __device__ __forceinline__ int count() const {
    return token_tiles * args.shares * (args.serial_ranges ? 1 : args.ranges);
  }
  __device__ __forceinline__ BatchTask operator[](int task) const {
    const int share = task % args.shares, token_tile = task / args.shares % token_tiles;
    return {token_tile, static_cast<int>(int64_t{share} * args.row_tiles / args.shares),
            static_cast<int>(int64_t{share + 1} * args.row_tiles / args.shares),
            experts ? args.tiles[token_tile]
                    : ExpertTile{0, token_tile * kTileTokens,
                                 min(kTileTokens, args.product.tokens - token_tile * kTileTokens)}};
  }
  __device__ __forceinline__ int range(int task, int pass) const {
    return args.serial_ranges ? pass : task / (args.shares * token_tiles);
  }
  // The row of activations, or with experts the slot, of token `i` of a task.
  __device__ __forceinline__ int slot(const BatchTask& work, int i) const {
    return experts ? args.order[work.tokens.first + i] : work.tokens.first + i;
  }
  // Where the partial sums of a row tile over a range of columns go. With serial_ranges a block keeps one per row tile
  // of its share and adds to it range by range.
  __device__ __forceinline__ float* partial(const BatchTask& work, int row_tile, int range) const {
    const int longest_share = (args.row_tiles + args.shares - 1) / args.shares;
    return args.partial + (args.serial_ranges
                               ? int64_t{blockIdx.x} * longest_share + row_tile - work.first_row_tile
                               : (int64_t{work.token_tile} * args.row_tiles + row_tile) * args.ranges + range) *
                              (kTileTokens * kBatchRows);
  }
};

// A warp group's ring of weights, and where one of its sides is.
template <typename Format>
struct BatchRing {
  using B = BatchShape<Format>;
  uint8_t* slots;
  CopyBarrier *full, *empty; // [kSlots]
  int slot = 0, parity = 0;

  __device__ __forceinline__ void advance() {
    if (++slot == B::kSlots) slot = 0, parity ^= 1;
  }
  __device__ __forceinline__ uint8_t* bytes() const { return slots + slot * B::kSlotBytes; }
};

// The row's groups and warp tiles that all phases count with.
template <typename Format>
struct BatchColumns {
  struct Range {
    int number, first, end; // warp tiles
  };
  int groups, warp_tiles, range_tiles;
  __device__ __forceinline__ explicit BatchColumns(const BatchArgs& args) : range_tiles(args.range_tiles) {
    groups = static_cast<int>(TileLayout<Format>::groups_of(args.product.cols));
    warp_tiles = (groups + kTileGroups - 1) / kTileGroups;
  }
  __device__ __forceinline__ Range range(int number) const {
    const int first = number * range_tiles;
    return {number, first, min(warp_tiles, first + range_tiles)};
  }
};

// The producer warp of a warp group: streams the weights of all tasks through the ring. Eight lanes fetch a row, four
// rows at a time.
template <typename Format, int kTileTokens>
__device__ __forceinline__ void stream_weights(const BatchTasks<kTileTokens>& tasks, BatchRing<Format> ring,
                                               const BatchColumns<Format>& columns, int warp_group) {
  using U = TileLayout<Format>;
  using B = BatchShape<Format>;
  constexpr int kRows = kWarp / 8;
  const BatchArgs& args = tasks.args;
  const int lane = threadIdx.x % kWarp;
  for (int task = blockIdx.x; task < tasks.count(); task += gridDim.x) {
    const BatchTask work = tasks[task];
    for (int pass = 0; pass < tasks.passes; ++pass) {
      const auto range = columns.range(tasks.range(task, pass));
      for (int row_tile = work.first_row_tile + warp_group; row_tile < work.end_row_tile;
           row_tile += args.warp_groups) {
        const uint8_t* from[kBatchRows / kRows]; // of full warp tiles
        int in_row_block[kBatchRows / kRows];
#pragma unroll
        for (int i = 0; i < kBatchRows / kRows; ++i) {
          int row;
          const GemmSegment& segment = batch_row(args, row_tile, i * kRows + lane / 8, row);
          row = min(row, segment.rows - 1);
          in_row_block[i] = row % U::kRowBlockRows;
          from[i] = segment.weights + work.tokens.expert * args.expert_bytes +
                    (row - in_row_block[i]) * args.product.row_bytes +
                    int64_t{range.first} * (U::kRowBlockRows * U::kBytes) + lane % 8 * 16;
        }
        for (int warp_tile = range.first; warp_tile < range.end; ++warp_tile) {
          const int tile_groups = min(kTileGroups, columns.groups - warp_tile * kTileGroups);
          const int tile_bytes = U::rounded(Layout<Format>::tile_payload(tile_groups));
          const int bytes = tile_bytes - lane % 8 * 16;
          uint8_t* to = ring.bytes() + lane / 8 * B::kRowPitch + lane % 8 * 16;
          ring.empty[ring.slot].wait(ring.parity ^ 1);
#pragma unroll
          for (int i = 0; i < kBatchRows / kRows; ++i) {
#pragma unroll
            for (int at = 0; at < U::kBytes; at += 128)
              if (at < bytes)
                copy_async_16(to + i * kRows * B::kRowPitch + at, from[i] + in_row_block[i] * tile_bytes + at);
            from[i] += U::kRowBlockRows * U::kBytes;
          }
          ring.full[ring.slot].arrive_after_copies();
          ring.advance();
        }
      }
    }
  }
}

// The consumer warps of a warp group.
template <typename Format, int kTileTokens>
class BatchConsumer {
  using B = BatchShape<Format>;
  using Tasks = BatchTasks<kTileTokens>;
  using Range = typename BatchColumns<Format>::Range;
  static constexpr int kSpans = kTileSpans<Format>; // of a warp tile
  static constexpr int kTokenTiles = kTileTokens / 8;
  static constexpr int kAllConsumers = 15; // the name of their barrier; the warp groups' own are 1, 2, …
  // A thread looks its result up before the sums are made where it has one; more would take registers away from them.
  static constexpr bool kEarly = kTileTokens * kBatchRows <= B::kConsumerThreads;

 public:
  static constexpr int kChains = kTokenTiles == 1 ? 2 : 1; // of products that wait for one another
  using Sums = float[kChains][kTokenTiles][4];

  // `consumers`: threads of all warp groups.
  __device__ __forceinline__ BatchConsumer(const Tasks& tasks, const BatchRing<Format>& ring,
                                           const BatchColumns<Format>& columns, int warp_group, int consumers,
                                           uint8_t* x_tile, float* scales)
      : tasks_(tasks), ring_(ring), columns_(columns), warp_group_(warp_group), consumers_(consumers),
        thread_(threadIdx.x % B::kConsumerThreads), lane_(threadIdx.x % kWarp), warp_(thread_ / kWarp), g_(lane_ / 4),
        t_(lane_ % 4), x_pitch_(batch_x_pitch(tasks.args.range_tiles * kSpans)), x_tile_(x_tile),
        sums_(reinterpret_cast<float*>(ring.slots + B::kSlots * B::kSlotBytes)), scales_(scales) {}

  // Copies the range's activations to shared memory, a row per warp. Behind the last column the weights are zero.
  __device__ __forceinline__ void bring_activations(const BatchTask& work, const Range& range) const {
    const GemmArgs& product = tasks_.args.product;
    named_sync(kAllConsumers, consumers_);
    const int x_first = range.first * kSpans * 4; // in pieces of 16 bytes
    const int x_pieces = min((range.end - range.first) * kSpans * 4, static_cast<int>(product.x_stride / 8) - x_first);
    for (int token = threadIdx.x / kWarp; token < work.tokens.count; token += consumers_ / kWarp) {
      const auto* from =
          reinterpret_cast<const uint4*>(product.x + tasks_.slot(work, token) / tasks_.args.used * product.x_stride);
      for (int piece = lane_; piece < x_pieces; piece += kWarp)
        copy_async_16(x_tile_ + token * x_pitch_ + piece / 4 * 64 + ((piece ^ piece / 4) & 3) * 16,
                      from + x_first + piece);
    }
    if (static_cast<int>(threadIdx.x) < work.tokens.count)
      scales_[threadIdx.x] = batch_scale(tasks_.args, tasks_.slot(work, threadIdx.x));
    copy_async_commit();
    copy_async_wait<0>();
    named_sync(kAllConsumers, consumers_);
  }

  // One row tile over one range of columns: product, sum over the warps, epilogue.
  __device__ __forceinline__ void multiply_row_tile(const BatchTask& work, int row_tile, const Range& range, int pass) {
    const Outputs outputs(tasks_, work, row_tile, range.number, pass);
    Element early = {};
    if (kEarly && thread_ < outputs.elements) early = outputs.look_up(thread_);
    Sums sum;
    multiply(sum, range);
    share_sums(sum);
    for (int i = thread_; i < outputs.elements; i += B::kConsumerThreads) {
      const Element e = kEarly ? early : outputs.look_up(i);
      const auto total_of = [&](int row) { // the warps' sums, added in their order
        float total = row == e.in_tile ? e.before[0] : e.before[1];
#pragma unroll
        for (int w = 0; w < B::kConsumerWarps; ++w) total += sums_[(w * kTileTokens + e.token) * kSumPitch + row];
        return total;
      };
      if (outputs.last)
        e.result.write(tasks_.args, row_tile, e.in_tile, scales_[e.token], work.tokens.expert, total_of);
      else
        outputs.part[e.token * kBatchRows + e.in_tile] = total_of(e.in_tile);
    }
  }

 private:
  struct Element {
    int token, in_tile; // the row in the tile
    float before[2];    // sums over the ranges before; the second of up with swiglu
    BatchResult result;
  };
  // What the threads of a warp group write of a row tile: results after the last range, else sums over this range.
  struct Outputs {
    const Tasks& tasks;
    const BatchTask& work;
    int row_tile, pass;
    bool last, halves; // halves: 8 gates and 8 ups become 8 results
    int row_bits, row_mask, elements;
    float* part;

    __device__ __forceinline__ Outputs(const Tasks& tasks, const BatchTask& work, int row_tile, int range, int pass)
        : tasks(tasks), work(work), row_tile(row_tile), pass(pass) {
      const BatchArgs& args = tasks.args;
      last = tasks.passes == 1 ? args.ranges == 1 : pass == tasks.passes - 1;
      halves = last && args.swiglu;
      row_bits = halves ? 3 : 4, row_mask = (1 << row_bits) - 1, elements = work.tokens.count << row_bits;
      part = args.ranges > 1 ? tasks.partial(work, row_tile, range) : nullptr;
    }
    __device__ __forceinline__ Element look_up(int i) const {
      Element e{i >> row_bits, i & row_mask, {0, 0}, {}};
      if (last) e.result.look_up(tasks.args, row_tile, e.in_tile, tasks.slot(work, e.token));
      if (tasks.args.serial_ranges && pass > 0) {
        e.before[0] = part[e.token * kBatchRows + e.in_tile];
        if (halves) e.before[1] = part[e.token * kBatchRows + e.in_tile + 8];
      }
      return e;
    }
  };

  // sum = this warp's spans of the ring's next warp tiles, times the activations.
  __device__ __forceinline__ void multiply(Sums& sum, const Range& range) {
#pragma unroll
    for (auto& chain : sum)
      for (auto& tile_sum : chain)
        for (float& v : tile_sum) v = 0;
    for (int warp_tile = range.first; warp_tile < range.end; ++warp_tile) {
      const uint8_t* rows = ring_.bytes() + g_ * B::kRowPitch;
      const uint8_t* x = x_tile_ + g_ * x_pitch_ + (warp_tile - range.first) * kSpans * 64;
      ring_.full[ring_.slot].wait(ring_.parity);
      const int tile_groups = columns_.groups - warp_tile * kTileGroups;
      tile_groups >= kTileGroups ? multiply_warp_tile(sum, rows, x, kTileGroups)
                                 : multiply_warp_tile(sum, rows, x, tile_groups);
      __syncwarp();
      if (lane_ == 0) ring_.empty[ring_.slot].arrive();
      ring_.advance();
    }
  }
  __device__ __forceinline__ void multiply_warp_tile(Sums& sum, const uint8_t* rows, const uint8_t* x,
                                                     int tile_groups) const {
#pragma unroll
    for (int first = 0; first < kSpans; first += 4 * B::kConsumerWarps) {
      const int span = first + 4 * warp_ + t_;
      if (tile_groups < kTileGroups && (first + 4 * warp_) * 32 >= tile_groups * Layout<Format>::kGroupWeights)
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
          const uint4 b = *reinterpret_cast<const uint4*>(x + n * 8 * x_pitch_ + span * 64 + (i ^ t_) * 16);
          const uint32_t first_a[4] = {a[0][4 * i], a[1][4 * i], a[0][4 * i + 1], a[1][4 * i + 1]};
          const uint32_t second_a[4] = {a[0][4 * i + 2], a[1][4 * i + 2], a[0][4 * i + 3], a[1][4 * i + 3]};
          mma_16x8x16(sum[0][n], first_a, b.x, b.y);
          mma_16x8x16(sum[kChains - 1][n], second_a, b.z, b.w);
        }
    }
  }
  // The warp's sums to shared memory, when those of the row tile before have been read.
  __device__ __forceinline__ void share_sums(const Sums& sum) const {
    named_sync(warp_group_ + 1, B::kConsumerThreads);
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        sums_[(warp_ * kTileTokens + 8 * n + 2 * t_ + i % 2) * kSumPitch + g_ + i / 2 * 8] =
            kChains == 1 ? sum[0][n][i] : sum[0][n][i] + sum[kChains - 1][n][i];
    named_sync(warp_group_ + 1, B::kConsumerThreads);
  }

  const Tasks& tasks_;
  BatchRing<Format> ring_;
  const BatchColumns<Format>& columns_;
  int warp_group_, consumers_, thread_, lane_, warp_, g_, t_, x_pitch_;
  uint8_t* x_tile_;
  float *sums_, *scales_;
};

template <typename Format, int kTileTokens>
__global__ void __launch_bounds__(BatchShape<Format>::kMaxThreads, 1)
    batch_kernel(const __grid_constant__ BatchArgs args) {
  using B = BatchShape<Format>;
  extern __shared__ uint4 shared[];
  __shared__ CopyBarrier full[B::kMaxWarpGroups][B::kSlots], empty[B::kMaxWarpGroups][B::kSlots];
  __shared__ float scales[kTileTokens];
  const int consumers = args.warp_groups * B::kConsumerThreads;
  const bool fetches = static_cast<int>(threadIdx.x) >= consumers; // a warp per warp group
  const int warp_group = fetches ? (threadIdx.x - consumers) / kWarp : threadIdx.x / B::kConsumerThreads;
  auto* memory = reinterpret_cast<uint8_t*>(shared);
  const BatchRing<Format> ring{memory + warp_group * B::warp_group_bytes(kTileTokens), full[warp_group],
                               empty[warp_group]};
  const BatchColumns<Format> columns(args);
  if (threadIdx.x == 0) {
    for (int i = 0; i < B::kMaxWarpGroups * B::kSlots; ++i) {
      full[0][i].init(kWarp);
      empty[0][i].init(B::kConsumerWarps);
    }
  }
  __syncthreads();
  stamp(args.stamps, kStarts);
  const bool experts = args.tiles != nullptr;
  if (!args.sibling_follows) let_successor_start();
  if (!args.follows_sibling && (experts || !fetches)) wait_for_predecessor(); // weights are no kernel's output
  if (args.sibling_follows && !fetches) let_successor_start();                // which then finds the activations ready
  stamp(args.stamps, kMayGoOn);

  const BatchTasks<kTileTokens> tasks(args);
  if (fetches) return stream_weights(tasks, ring, columns, warp_group);
  BatchConsumer<Format, kTileTokens> consumer(tasks, ring, columns, warp_group, consumers,
                                              memory + args.warp_groups * B::warp_group_bytes(kTileTokens), scales);
  for (int task = blockIdx.x; task < tasks.count(); task += gridDim.x) {
    const BatchTask work = tasks[task];
    for (int pass = 0; pass < tasks.passes; ++pass) {
      const auto range = columns.range(tasks.range(task, pass));
      consumer.bring_activations(work, range);
      for (int row_tile = work.first_row_tile + warp_group; row_tile < work.end_row_tile; row_tile += args.warp_groups)
        consumer.multiply_row_tile(work, row_tile, range, pass);
    }
  }
  if (args.follows_sibling) wait_for_predecessor(); // so that a kernel behind this one starts after both
  stamp_latest(args.stamps, kEnds);
}

} // namespace ridge::kernels::cuda
