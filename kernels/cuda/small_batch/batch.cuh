// out = x Wᵀ for 2 to about 64 rows of activations, on tensor cores, bound by the weights' bytes.
//
// A warp group multiplies 16 rows at a time. One warp streams weights through a ring in shared memory, ahead even into
// the next rows. Consumer warps decode and multiply: lane 4 g + t decodes a span (32 consecutive weights) of rows g and
// g + 8, its part of the left operand of eight products of 16 columns. Columns within a sum may be permuted, so lane t
// brings weights 4 j to 4 j + 3 of its span into product j, and the right operand of all eight is four 16-byte reads.
// Another warp adds the consumers' sums and finishes results.
//
// If not all columns' activations fit into shared memory, blocks take ranges of columns, and a second kernel adds the
// partial sums in a fixed order; or one block takes the ranges in turn.
#pragma once

#include "kernels/cuda/small_batch/batch_activations.cuh"
#include "kernels/cuda/small_batch/batch_epilogue.cuh"

namespace ridge::kernels::cuda {

// Eight lanes fetch a row, four rows at a time. The warp shares its scheduler with multiplying warps, so a warp tile
// takes only 50 instructions; with 200, 8 streams were 3 % slower.
template <typename Format>
class BatchFetcher {
  using U = TileLayout<Format>;
  using B = BatchShape<Format>;
  static constexpr int kLanes = 8, kRows = kWarp / kLanes, kSets = kBatchRows / kRows, kPieces = U::kBytes / 16;

 public:
  __device__ __forceinline__ BatchFetcher(const BatchArgs& args, const BatchRing<Format>& ring,
                                          const BatchColumns<Format>& columns)
      : args_(args), ring_(ring), columns_(columns), lane_(threadIdx.x % kWarp),
        to_(static_cast<uint32_t>(__cvta_generic_to_shared(ring.slots)) + lane_ / kLanes * B::kRowPitch +
            lane_ % kLanes * 16) {}

  __device__ __forceinline__ void fetch_row_tile(int64_t expert, const typename BatchColumns<Format>::Range& range,
                                                 int row_tile) {
    const uint8_t* from[kSets];
    int in_row_block[kSets];
#pragma unroll
    for (int i = 0; i < kSets; ++i) {
      int row;
      const GemmSegment& segment = batch_row(args_, row_tile, i * kRows + lane_ / kLanes, row);
      row = min(row, segment.rows - 1);
      in_row_block[i] = row % U::kRowBlockRows;
      from[i] = segment.weights + expert + (row - in_row_block[i]) * args_.product.row_bytes +
                int64_t{range.first} * (U::kRowBlockRows * U::kBytes) + in_row_block[i] * U::kBytes +
                lane_ % kLanes * 16;
    }
    const int full = min(range.end, columns_.groups / kTileGroups) - range.first;
    for (int tile = 0; tile < full; ++tile) {
      ring_.empty().wait(ring_.parity ^ 1);
      const uint32_t to = to_ + ring_.slot * B::kSlotBytes;
      copy_sets(to, from, std::make_integer_sequence<int, kSets>());
      finish_slot();
    }
    if (const int groups = columns_.groups - (range.end - 1) * kTileGroups; groups < kTileGroups) {
      const int tile_bytes = U::rounded(Layout<Format>::tile_payload(groups));
      ring_.empty().wait(ring_.parity ^ 1);
#pragma unroll
      for (int i = 0; i < kSets; ++i)
        for (int at = 0; at + lane_ % kLanes * 16 < tile_bytes; at += kLanes * 16)
          copy_async_16_at<0, 0>(to_ + ring_.slot * B::kSlotBytes + i * kRows * B::kRowPitch + at,
                                 from[i] + in_row_block[i] * (tile_bytes - U::kBytes) + at);
      finish_slot();
    }
  }

 private:
  template <int... kSet>
  __device__ __forceinline__ void copy_sets(uint32_t to, const uint8_t* (&from)[kSets],
                                            std::integer_sequence<int, kSet...>) const {
    (copy_set<kSet * kRows * B::kRowPitch>(to, from[kSet],
                                           std::make_integer_sequence<int, (kPieces + kLanes - 1) / kLanes>()),
     ...);
    ((from[kSet] += U::kRowBlockRows * U::kBytes), ...);
  }
  template <int kTo, int... kPart>
  __device__ __forceinline__ void copy_set(uint32_t to, const uint8_t* from,
                                           std::integer_sequence<int, kPart...>) const {
    const auto copy = [&]<int kAt>(std::integral_constant<int, kAt>) {
      if (kAt + kLanes <= kPieces || lane_ % kLanes < kPieces - kAt)
        copy_async_16_at<kTo + 16 * kAt, 16 * kAt>(to, from);
    };
    (copy(std::integral_constant<int, kPart * kLanes>()), ...);
  }
  __device__ __forceinline__ void finish_slot() {
    ring_.full().arrive_after_copies();
    ring_.advance();
  }

  const BatchArgs& args_;
  BatchRing<Format> ring_;
  const BatchColumns<Format>& columns_;
  int lane_;
  uint32_t to_;
};

template <typename Format, int kTileTokens, bool kExperts>
class BatchConsumer {
  using B = BatchShape<Format>;
  using Range = typename BatchColumns<Format>::Range;
  using Activations = BatchActivations<Format, kTileTokens, kExperts>;
  static constexpr int kSpans = kTileSpans<Format>;
  static_assert(kSpans == 4 * B::kConsumerWarps);
  static constexpr int kTokenTiles = kTileTokens / 8;
  // independent accumulators, so that products do not wait for each other
  static constexpr int kChains = kTokenTiles == 1 ? 2 : 1;

 public:
  __device__ __forceinline__ BatchConsumer(const BatchRing<Format>& ring, const BatchColumns<Format>& columns,
                                           const Activations& activations, const uint8_t* x_tile, const BatchSums& sums)
      : ring_(ring), sums_(sums), activations_(activations), groups_(columns.groups), lane_(threadIdx.x % kWarp),
        warp_(threadIdx.x / kWarp % B::kConsumerWarps), span_(offset_in_register(4 * warp_ + lane_ % 4)),
        x_(x_tile + offset_in_register(lane_ / 4 * kChunkPitch + lane_ % 4 * 16 + warp_ * 256)) {
    ring_.slots += offset_in_register(lane_ / 4 * B::kRowPitch);
  }

  // `arrives`: activations of range `number` may not be there yet.
  __device__ __forceinline__ void multiply_row_tile(const Range& range, bool arrives, int number) {
    Sums sum = {};
    Weights weights;
    const int full = min(range.end, groups_ / kTileGroups) - range.first;
    int tile = 0;
    const auto x = [&] {
      const int chunk = tile / kChunkTiles<Format>;
      if (arrives && tile % kChunkTiles<Format> == 0) activations_.wait_for(chunk, number);
      return x_ + chunk * Activations::kChunkBytes + tile % kChunkTiles<Format> * (kSpans * 64);
    };
    for (; tile < full; ++tile) {
      const uint8_t* of_tile = x();
      take(weights, kTileGroups);
      multiply(sum, weights, of_tile);
    }
    if (const int groups = groups_ - (range.end - 1) * kTileGroups; groups < kTileGroups) {
      const uint8_t* of_tile = x();
      take(weights, groups);
      if (4 * warp_ * 32 < groups * Layout<Format>::kGroupWeights) multiply(sum, weights, of_tile);
    }
    hand_over(sum);
  }

 private:
  using Sums = float[kChains][kTokenTiles][4];
  using Weights = SpanWeights<Format>[2];

  // Also frees the ring's slot.
  __device__ __forceinline__ void take(Weights& weights, int groups) {
    ring_.full().wait(ring_.parity);
#pragma unroll
    for (int h = 0; h < 2; ++h) weights[h].fetch_nearest(ring_.bytes() + h * 8 * B::kRowPitch, groups, span_);
    ring_.empty().arrive();
    ring_.advance();
  }
  __device__ __forceinline__ void multiply(Sums& sum, const Weights& weights, const uint8_t* x) const {
    uint32_t a[2][16];
    SpanWeights<Format>::template halves_of_rows<ColumnOrder::interleaved>(a, weights, span_);
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint4 b = *reinterpret_cast<const uint4*>(x + n * 8 * kChunkPitch + i * 64);
        const uint32_t first_a[4] = {a[0][4 * i], a[1][4 * i], a[0][4 * i + 1], a[1][4 * i + 1]};
        const uint32_t second_a[4] = {a[0][4 * i + 2], a[1][4 * i + 2], a[0][4 * i + 3], a[1][4 * i + 3]};
        mma_16x8x16(sum[0][n], first_a, b.x, b.y);
        mma_16x8x16(sum[kChains - 1][n], second_a, b.z, b.w);
      }
  }
  // Waits until the epilogue has read the previous row tile's sums.
  __device__ __forceinline__ void hand_over(const Sums& sum) {
    sums_.empty.wait(sums_.parity ^ 1);
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
      float4 v = {sum[0][n][0], sum[0][n][1], sum[0][n][2], sum[0][n][3]};
      if (kChains == 2) v = v + float4{sum[1][n][0], sum[1][n][1], sum[1][n][2], sum[1][n][3]};
      sums_.values[(n * B::kConsumerWarps + warp_) * kWarp + lane_] = v;
    }
    sums_.full.arrive();
    sums_.parity ^= 1;
  }

  BatchRing<Format> ring_;
  BatchSums sums_;
  const Activations& activations_;
  int groups_, lane_, warp_, span_;
  const uint8_t* x_;
};

template <typename Format, int kTileTokens, bool kExperts>
__global__ void __launch_bounds__(BatchShape<Format>::kMaxThreads, 1)
    batch_kernel(const __grid_constant__ BatchArgs args) {
  using B = BatchShape<Format>;
  using Activations = BatchActivations<Format, kTileTokens, kExperts>;
  extern __shared__ uint4 shared[];
  __shared__ BatchBarriers<Format> barriers[B::kMaxWarpGroups];
  __shared__ CopyBarrier arrived[kMaxChunks];
  // Consumers of all groups, a fetching warp each, a finishing warp each.
  const int consumers = args.warp_groups * B::kConsumerThreads, behind = static_cast<int>(threadIdx.x) - consumers;
  const bool fetches = behind >= 0 && behind < args.warp_groups * kWarp, multiplies = behind < 0;
  const int warp_group = multiplies ? threadIdx.x / B::kConsumerThreads : behind / kWarp % args.warp_groups;
  auto* memory = reinterpret_cast<uint8_t*>(shared) +
                 offset_in_register(warp_group * B::warp_group_bytes(kTileTokens, args.slots));
  auto* x_tile = reinterpret_cast<uint8_t*>(shared) +
                 offset_in_register(args.warp_groups * B::warp_group_bytes(kTileTokens, args.slots));
  const BarrierAddress first = BarrierAddress(&barriers[warp_group]).in_register();
  const BatchRing<Format> ring{memory + B::sums_bytes(kTileTokens), first, args.slots};
  const BatchSums sums{reinterpret_cast<float4*>(memory), first + 2 * B::kMaxSlots, first + (2 * B::kMaxSlots + 1)};
  const BatchColumns<Format> columns(args);
  // By several warps: an init takes six cycles, and lanes serialize.
  if (fetches && threadIdx.x % kWarp == 0) barriers[warp_group].init();
  if (threadIdx.x == 0)
    for (CopyBarrier& chunk : arrived) chunk.init(1);
  fence_barrier_init();
  __syncthreads();
  stamp(args.stamps, kStarts);
  if (!args.sibling_follows) let_successor_start();
  const auto wait = [&] {
    if (!args.follows_sibling) wait_for_predecessor();
    if (args.sibling_follows) let_successor_start(); // the sibling then finds the activations ready
    stamp(args.stamps, kPredecessorDone);
  };
  if (kExperts) wait(); // the predecessor determines the tasks
  const BatchTasks<kTileTokens, kExperts> tasks(args);
  const int passes = tasks.passes();
  int number = 0;
  const auto each_range = [&](auto&& visit) {
    tasks.each([&](const BatchTask& work) {
      for (int pass = 0; pass < passes; ++pass, ++number) {
        const auto range = columns.range(args.serial_ranges ? pass : work.range);
        if (number == 0 && !kExperts && !fetches) wait(); // weights are no kernel's output
        visit(work, range, pass);
      }
    });
  };
  if (fetches) {
    BatchFetcher<Format> fetcher(args, ring, columns);
    each_range([&](const BatchTask& work, const auto& range, int) {
      const int64_t expert = tasks.expert(work);
      for (int row_tile = work.first_row_tile + warp_group; row_tile < work.end_row_tile; row_tile += args.warp_groups)
        fetcher.fetch_row_tile(expert, range, row_tile);
    });
    return;
  }
  if (multiplies) {
    const Activations activations(tasks, x_tile, BarrierAddress(arrived).in_register(), consumers);
    BatchConsumer<Format, kTileTokens, kExperts> consumer(ring, columns, activations, x_tile, sums);
    each_range([&](const BatchTask& work, const auto& range, int) {
      activations.bring(work, range, number);
      bool arrives = true;
      for (int left = work.end_row_tile - work.first_row_tile - warp_group; left > 0; left -= args.warp_groups) {
        consumer.multiply_row_tile(range, arrives, number);
        arrives = false;
      }
    });
  } else {
    BatchEpilogue<Format, kTileTokens, kExperts> epilogue(tasks, sums);
    each_range([&](const BatchTask& work, const auto& range, int pass) {
      epilogue.begin(work);
      for (int row_tile = work.first_row_tile + warp_group; row_tile < work.end_row_tile; row_tile += args.warp_groups)
        epilogue.finish_row_tile(work, row_tile, range, pass);
      if (pass + 1 == passes) epilogue.end();
    });
  }
  if (args.follows_sibling) wait_for_predecessor(); // a later kernel then starts after both
  stamp_latest(args.stamps, kEnds);
}

} // namespace ridge::kernels::cuda
