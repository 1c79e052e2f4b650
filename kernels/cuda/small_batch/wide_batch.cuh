// out = x Wᵀ for 17 to 2,048 rows of activations, or experts with many tokens, by wgmma.
//
// batch.cuh reads the activations for each 16 rows of weights: with 32 tokens 58 % of shared memory's time. Here the
// tensor cores read them once for four warps of 16 rows. Warps decode as in batch.cuh into registers; activations
// stream through a ring in units of 128 columns.
//
// A block's four warpgroups (two with more than 96 tokens) have different rows, or split the columns of the same rows
// and add sums in shared memory; or both. Blocks may also split columns and tokens; those with the same weights, or for
// experts the same tile, are neighbours. Counted tiles (up to 160 tokens of an expert, three warpgroups) multiply only
// as many tokens as there are, rounded up to 16: experts never have the same number.
#pragma once

#include "kernels/cuda/layout/span_weights.cuh"
#include "kernels/cuda/products/half_layout.h"
#include "kernels/cuda/runtime/wgmma_counts.cuh"
#include "kernels/cuda/small_batch/wide_results.cuh"

namespace ridge::kernels::cuda {

#ifdef RIDGE_HAS_WGMMA

// One thread copies units, the part's warpgroups read them.
template <typename Shape>
class WideRing {
 public:
  __device__ __forceinline__ WideRing(uint8_t* slots, CopyBarrier* full, CopyBarrier* empty, int count)
      : slots_(slots), tiles_(static_cast<uint32_t>(tile_descriptor(slots))), full_(BarrierAddress(full).in_register()),
        empty_(BarrierAddress(empty).in_register()), count_(count) {}

  // `bytes` of each of the unit's two tiles.
  __device__ __forceinline__ void copy_next_unit(const uint8_t* from, uint32_t bytes = Shape::kTileBytes) {
    (empty_ + in_.slot).wait(in_.parity ^ 1);
    uint8_t* to = slots_ + in_.slot * Shape::kUnitBytes;
    (full_ + in_.slot).arrive_expecting(2 * bytes);
    if (bytes == Shape::kTileBytes) {
      (full_ + in_.slot).bulk_copy(to, from, Shape::kUnitBytes);
    } else {
      (full_ + in_.slot).bulk_copy(to, from, bytes);
      (full_ + in_.slot).bulk_copy(to + Shape::kTileBytes, from + Shape::kTileBytes, bytes);
    }
    in_.advance(count_);
  }
  // Waits for the next unit and returns the lower half of its tile_descriptor.
  __device__ __forceinline__ uint32_t next() {
    (full_ + out_.slot).wait(out_.parity);
    const uint32_t tile = tiles_ + out_.slot * (Shape::kUnitBytes / 16);
    out_.advance(count_);
    return tile;
  }
  __device__ __forceinline__ void release() {
    if (threadIdx.x % kWarp == 0) (empty_ + freed_).arrive();
    if (++freed_ == count_) freed_ = 0;
  }

 private:
  struct Place {
    int slot = 0, parity = 0;
    __device__ __forceinline__ void advance(int count) {
      if (++slot == count) slot = 0, parity ^= 1;
    }
  };
  uint8_t* slots_;
  uint32_t tiles_;
  BarrierAddress full_, empty_;
  int count_, freed_ = 0;
  Place in_, out_;
};

// kUnits are fetched together: the assembler makes all loads that cross a loop's end wait for each other, and a pair
// shares addresses.
template <typename Format, int kUnits>
class WideWeights {
  using U = TileLayout<Format>;
  static constexpr int kTileUnits = kTileSpans<Format> / 4, kTileStep = U::kRowBlockRows * U::kBytes;
  static_assert(kTileSpans<Format> % 8 == 0, "a pair of units is in one warp tile");

 public:
  using Unit = SpanWeights<Format>[2];

  __device__ __forceinline__ WideWeights(const BatchArgs& args, int64_t expert, int row_tile)
      : groups_(static_cast<int>(U::groups_of(args.product.cols))) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      int row;
      const GemmSegment& segment =
          batch_row(args, min(row_tile, args.row_tiles - 1), threadIdx.x % kWarp / 4 + 8 * h, row);
      row = min(row, segment.rows - 1);
      in_row_block_[h] = row % U::kRowBlockRows;
      row_[h] = opaque(segment.weights + expert + (row - in_row_block_[h]) * args.product.row_bytes +
                       in_row_block_[h] * U::kBytes); // as one value, otherwise every load adds two parts
    }
  }
  __device__ __forceinline__ int full_units() const { return groups_ / kTileGroups * kTileUnits; }

  template <bool kFull>
  __device__ __forceinline__ void fetch(Unit (&to)[kUnits], int unit) const {
    const unsigned tile = unsigned(unit) / kTileUnits;
    const int groups = kFull ? kTileGroups : groups_ - static_cast<int>(tile) * kTileGroups;
    const int shorter = kFull ? 0 : U::kBytes - U::rounded(Layout<Format>::tile_payload(groups));
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint8_t* at = row_[h] + tile * kTileStep - in_row_block_[h] * shorter;
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        if (i > 0) at = opaque(at); // reloads common parts; a copy would wait for the load
        if constexpr (kFull)
          to[i][h].fetch_full(at, groups, span(unit, i));
        else
          to[i][h].fetch_nearest(at, groups, span(unit, i));
      }
    }
  }
  __device__ __forceinline__ void decode(uint32_t (&a)[2][16], const Unit& from, int unit, int i) const {
    SpanWeights<Format>::template halves_of_rows<ColumnOrder::interleaved>(a, from, span(unit, i));
  }

 private:
  static __device__ __forceinline__ const uint8_t* opaque(const uint8_t* global) {
    size_t address = __cvta_generic_to_global(global);
    asm volatile("" : "+l"(address));
    return static_cast<const uint8_t*>(__cvta_global_to_generic(address));
  }
  // By bits, so that the compiler sees what two units share. `unit` is a multiple of kUnits.
  static __device__ __forceinline__ int span(unsigned unit, unsigned i) {
    return static_cast<int>((unit & (kTileUnits - kUnits)) * 4 | 4 * i | threadIdx.x % 4);
  }

  const uint8_t* row_[2];
  int in_row_block_[2], groups_;
};

// Starts the products without waiting.
template <typename Shape, int kSums>
__device__ __forceinline__ void multiply_unit(float (&sum)[kSums], uint32_t (&a)[2][16], uint32_t x) {
#pragma unroll
  for (int i = 0; i < 32; ++i) // decoded before the fence; otherwise the compiler may wait between products
    asm volatile("" : "+r"(a[i / 16][i % 16])::"memory");
  constexpr uint32_t kTile = Shape::kTileBytes / 16;
  wgmma_fence();
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const uint32_t left[4] = {a[0][2 * j], a[1][2 * j], a[0][2 * j + 1], a[1][2 * j + 1]};
    wgmma(sum, left, x + j / 4 * kTile + j % 4 * 2);
  }
  wgmma_commit();
}

// Tokens to multiply: of those that visit_columns() has, the least that holds all.
template <typename Shape>
__device__ __forceinline__ int columns_of(int count) {
  if (!Shape::kCounted) return Shape::kTokens;
  return count <= 32 ? 32 : count <= 64 ? 64 : (count + 15) & ~15;
}
// Calls visit(std::integral_constant<int, columns>()).
template <typename Shape, typename Visit>
__device__ __forceinline__ void visit_columns(int columns, Visit&& visit) {
  if constexpr (Shape::kCounted) {
    const auto visit_if = [&]<int kColumns>(std::integral_constant<int, kColumns> n) {
      if (columns == kColumns) visit(n);
    };
    [&]<int... kColumns>(std::integer_sequence<int, kColumns...>) {
      (visit_if(std::integral_constant<int, kColumns>()), ...);
    }
    (std::integer_sequence<int, 128, 144, 112, 160, 96, 80, 64, 32>());
  } else {
    visit(std::integral_constant<int, Shape::kTokens>());
  }
}

#endif

template <typename Format, int kTokens>
__global__ void __launch_bounds__(WideShape<kTokens>::kThreads, 1)
    wide_batch_kernel(const __grid_constant__ WideArgs args) {
#ifdef RIDGE_HAS_WGMMA
  using Shape = WideShape<kTokens>;
  extern __shared__ uint8_t wide_memory[];
  __shared__ CopyBarrier full[Shape::kSlots], empty[Shape::kSlots];
  __shared__ WideTokens<Shape> tokens;
  const BatchArgs& batch = args.batch;
  uint8_t* slots = wide_memory + (1024 - shared_address(wide_memory) % 1024) % 1024;
  const bool experts = batch.tiles != nullptr;
  stamp(batch.stamps, kStarts);
  if (!batch.sibling_follows) let_successor_start();
  if (experts) wait_for_predecessor();
  const WideTask work(args, Shape::kGroups);
  const ExpertTile tile = work.tokens(batch, kTokens);
  const int row_groups = Shape::kGroups >> args.log2_parts, count = Shape::kSlots >> args.log2_parts;
  if (threadIdx.x == 0) // two warps: lanes of one would serialize
    for (CopyBarrier& barrier : full) barrier.init(1);
  if (threadIdx.x == kWarp)
    for (CopyBarrier& barrier : empty) barrier.init(4 * row_groups);
  fence_barrier_init();
  __syncthreads();
  if (tile.count == 0) {
    stamp(batch.stamps, kPredecessorDone);
    return stamp_latest(batch.stamps, kEnds);
  }
  constexpr int kMaxPairTokens = Shape::kOverlaps ? 128 : 64; // more tokens leave too few registers
  constexpr int kUnits = quant::FloatFormat<Format> || kTokens > kMaxPairTokens ? 1 : 2;
  using Weights = WideWeights<Format, kUnits>;
  const Weights weights(batch, batch.experts.of(tile.expert), work.row_tile);
  typename Weights::Unit raw[kUnits];
  const int end = work.first_unit + work.units, full_end = min(end, weights.full_units());
  const auto fetch = [&](int unit) {
    if (unit < full_end)
      weights.template fetch<true>(raw, unit);
    else if (unit < end)
      weights.template fetch<false>(raw, unit);
  };
  fetch(work.first_unit);
  if (!experts && !batch.follows_sibling) wait_for_predecessor();
  if (batch.sibling_follows) let_successor_start(); // the sibling then finds the activations ready
  stamp(batch.stamps, kPredecessorDone);

  WideRing<Shape> ring(slots + work.part * count * Shape::kUnitBytes, full + work.part * count,
                       empty + work.part * count, count);
  const bool brings = work.group == 0 && threadIdx.x % 128 == 0;
  const int next_unit = experts ? Shape::kUnitBytes : batch.token_tiles * Shape::kUnitBytes,
            all_units = (batch.product.cols + kWideColumns - 1) / kWideColumns;
  const auto* x = reinterpret_cast<const uint8_t*>(batch.product.x) + int64_t{work.first_unit} * next_unit +
                  int64_t{work.token_tile} * (experts ? all_units : 1) * Shape::kUnitBytes;
  const int columns = columns_of<Shape>(tile.count);
  int to_bring = brings ? work.units : 0;
  const auto copy_next_unit = [&] {
    if (to_bring == 0) return;
    ring.copy_next_unit(x, columns * (kWideColumns / 2 * 2));
    x += next_unit;
    --to_bring;
  };
  // Half of the slots are filled ahead: each is refilled some units after it was read, so the copying warp does not
  // wait for the slowest warpgroup.
  for (int i = (count + 1) / 2; i > 0; --i) copy_next_unit();
  tokens.request(batch, tile, work.token_tile);

  // If registers allow, the next pair's loads begin once the first unit is decoded. Units being multiplied and decoded
  // need different registers, hence two steps.
  constexpr bool kCopies = kUnits == 2 && (kTokens < 64 || Shape::kOverlaps);
  constexpr int kSteps = Shape::kOverlaps ? 2 : kUnits;
  float* sums = reinterpret_cast<float*>(slots);
  visit_columns<Shape>(columns, [&]<int kColumns>(std::integral_constant<int, kColumns>) {
    float sum[kColumns / 2] = {};
    const auto step = [&](const typename Weights::Unit& weights_of, int unit, int i) {
      uint32_t a[2][16];
      if (!Shape::kOverlaps) copy_next_unit();
      weights.decode(a, weights_of, unit, i);
      if (i == (kCopies ? 0 : kUnits - 1)) fetch(unit + kUnits);
      const uint32_t x_tile = ring.next();
      if (Shape::kOverlaps) {
        wgmma_wait<0>();
        if (unit + i > work.first_unit) ring.release();
      }
      multiply_unit<Shape>(sum, a, x_tile);
      if (Shape::kOverlaps) {
        copy_next_unit(); // possibly into the previous unit's slot
      } else {
        wgmma_wait<0>();
        ring.release();
      }
    };
    int unit = work.first_unit;
#pragma unroll 1
    for (; unit + (Shape::kOverlaps ? 1 : 0) < end; unit += kSteps) {
      [[maybe_unused]] typename Weights::Unit second;
#pragma unroll
      for (int h = 0; h < 2; ++h)
        if constexpr (kCopies) second[h] = raw[1][h].copy();
      step(raw[0], unit, 0);
      if constexpr (kSteps == 2) {
        if (!Shape::kOverlaps && unit + 1 == end) break;
        if constexpr (kUnits == 2)
          step(kCopies ? second : raw[1], unit, 1);
        else
          step(raw[0], unit + 1, 0);
      }
    }
    if (Shape::kOverlaps && unit < end) step(raw[0], unit, 0);
    if (Shape::kOverlaps) wgmma_wait<0>();
    tokens.arrive();
    __syncthreads();
    keep_sums<Shape>(sums, sum);
  });
  __syncthreads();
  if (batch.gated)
    write_wide<Shape, true>(args, work, tile, sums, tokens);
  else
    write_wide<Shape, false>(args, work, tile, sums, tokens);
  if (batch.follows_sibling) wait_for_predecessor(); // a later kernel then starts after both
  stamp_latest(batch.stamps, kEnds);
#endif
}

} // namespace ridge::kernels::cuda
