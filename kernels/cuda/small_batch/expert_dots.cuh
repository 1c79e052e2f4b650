// out = x Wᵀ for experts with few tokens each: sorted by expert as in batch.cuh, with matvec_groups.cuh's integer
// products on tensor cores.
//
// A warp multiplies a unit at a time: 16 rows and four groups of 32 columns. Lane 4 g + t decodes group t of rows g and
// g + 8: the left operand of four m16n8k32 products. Groups' sums must stay apart because their scales differ: columns
// 2 t and 2 t + 1 of the right operand hold the high and low bytes of group t's activations and 0 elsewhere, so each
// lane gets its group's sums. Each token takes separate products; batch.cuh multiplies eight at once.
//
// A row tile (16 rows, all columns) is one contiguous piece, or two (gate and up). One lane brings row tiles into a
// ring, teams of warps take them in turn, and a few warps finish the results.
#pragma once

#include "kernels/cuda/small_batch/expert_dots_tasks.cuh"

namespace ridge::kernels::cuda {

template <typename Format>
__device__ __forceinline__ void fetch_row_tiles(const ExpertDotArgs& args, const ExpertDotMemory<Format>& memory,
                                                RowTileWalk walk) {
  using S = ExpertDotShape<Format>;
  const GemmArgs& product = args.product.product;
  const int blocks = (product.segment[0].rows + S::kRowBlockRows - 1) / S::kRowBlockRows;
  const int at_once = args.product.gated ? S::kRowBlocks / 2 : S::kRowBlocks;
  const uint32_t bytes = S::kRowBlockRows * static_cast<uint32_t>(product.row_bytes);
  int64_t expert = 0;
#pragma unroll 1
  for (int before = -1; walk.left > 0; walk.advance(1)) {
    if (walk.token_tile != before) {
      before = walk.token_tile;
      expert = args.product.experts.of(args.product.tiles[before].expert);
    }
    const int first = walk.row_tile * at_once, count = min(at_once, blocks - first);
    const BarrierAddress full = memory.full(walk.stage);
    memory.empty(walk.stage).wait(walk.parity ^ 1);
    full.arrive_expecting((args.product.gated ? 2 : 1) * count * bytes);
    uint8_t* to = memory.ring + walk.stage * memory.stage_bytes;
#pragma unroll 1
    for (int s = 0; s < (args.product.gated ? 2 : 1); ++s, to += at_once * args.row_block_pitch) {
      const uint8_t* from = product.segment[s].weights + expert + int64_t{first} * bytes;
#pragma unroll 1
      for (int b = 0; b < count; ++b) full.bulk_copy(to + b * args.row_block_pitch, from + int64_t{b} * bytes, bytes);
    }
  }
}

template <typename Format>
class ExpertDotConsumer {
  using S = ExpertDotShape<Format>;
  using L = Layout<Format>;
  using U = TileLayout<Format>;
  static constexpr bool kLow = kLowParts<Format>;
  static constexpr int kDots = L::kHalfScales ? 2 : 1;
  static constexpr int kTileUnits = kTileGroups / kUnitGroups;

 public:
  __device__ __forceinline__ ExpertDotConsumer(const ExpertDotArgs& args, const ExpertDotMemory<Format>& memory)
      : args_(args), memory_(memory), lane_(threadIdx.x % kWarp), warp_(threadIdx.x / kWarp), t_(lane_ % 4) {
    const int groups = args.product.product.cols / 32;
    full_tiles_ = groups / kTileGroups, tail_groups_ = groups % kTileGroups;
    const int tail_bytes = U::rounded(L::tile_payload(tail_groups_));
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = S::row(lane_ / 4, h), block = row / S::kRowBlockRows * args.row_block_pitch;
      row_at_[h] = block + row % S::kRowBlockRows * U::kBytes;
      tail_at_[h] = block + row % S::kRowBlockRows * tail_bytes;
    }
    has_activations_ = lane_ / 8 == t_;
    integers_pitch_ = offset_in_register(has_activations_ ? S::kUnitBytes : 0);
    integers_step_ = offset_in_register(has_activations_ ? memory.token_bytes : 0);
  }

  // All multiplying warps call it together.
  __device__ __forceinline__ void run(RowTileWalk walk, int first_tile, int last_tile) {
    const ExpertDotInput<Format> input(args_.product, memory_.activations, memory_.units);
#pragma unroll 1
    for (int begin = first_tile, end; begin <= last_tile; begin = end) {
      const ExpertTile tile = args_.product.tiles[min(begin + lane_, last_tile)];
      int tokens = __shfl_sync(~0U, tile.count, 0);
      for (end = begin + 1; end <= last_tile && end < begin + kWarp; ++end) {
        const int more = __shfl_sync(~0U, tile.count, end - begin);
        if (tokens + more > args_.room) break;
        tokens += more;
      }
      const int first = __shfl_sync(~0U, tile.first, 0);
      named_sync(kConsumerBarrier, S::kConsumers * kWarp); // all warps are done with the previous tiles
      input.bring(first, tokens);
      named_sync(kConsumerBarrier, S::kConsumers * kWarp);
#pragma unroll 1
      for (; walk.left > 0 && walk.token_tile < end; walk.advance(S::kConsumers / args_.team)) {
        const int before = __shfl_sync(~0U, tile.first, walk.token_tile - begin) - first;
        multiply_row_tile(walk, memory_.activations + before * memory_.token_bytes,
                          __shfl_sync(~0U, tile.count, walk.token_tile - begin));
      }
    }
  }

 private:
  using Sums = float[kDotTokens][2];
  static constexpr int kConsumerBarrier = 15;

  __device__ __forceinline__ void multiply_row_tile(const RowTileWalk& walk, const uint8_t* x, int tokens) {
    Sums sum = {};
    const uint8_t* weights = memory_.ring + walk.stage * memory_.stage_bytes;
    const uint8_t* integers = has_activations_ ? x + lane_ / 4 * 16 : memory_.zeros;
    const uint8_t* scales = x + 2 * S::kPartBytes + t_ * sizeof(ColumnScales);
    const auto multiply = [&]<bool kFull>(int unit, std::bool_constant<kFull>) {
      multiply_unit<kFull>(sum, weights, unit, integers + unit * integers_pitch_, scales + unit * S::kUnitBytes,
                           tokens);
    };
    memory_.full(walk.stage).wait(walk.parity);
    int unit = warp_ & (args_.team - 1);
#pragma unroll 1
    for (; unit < full_tiles_ * kTileUnits; unit += args_.team) multiply(unit, std::true_type());
#pragma unroll 1
    for (; unit < memory_.units; unit += args_.team) multiply(unit, std::false_type());
    __syncwarp();
    if (lane_ == 0) memory_.empty(walk.stage).arrive();
    hand_over(sum, tokens);
  }

  template <bool kFull>
  __device__ __forceinline__ void multiply_unit(Sums& sum, const uint8_t* weights, int unit, const uint8_t* integers,
                                                const uint8_t* scales, int tokens) const {
    typename L::Raw raw[2];
    float block_scale[2] = {};
    const int tile = kFull ? static_cast<int>(static_cast<unsigned>(unit) / kTileUnits) : full_tiles_,
              groups = kFull ? kTileGroups : tail_groups_;
    int group = unit % static_cast<unsigned>(kTileUnits) * kUnitGroups + t_;
    if (!kFull) group = min(group, groups - 1); // activations there are 0
    __builtin_assume(group >= 0 && groups > 0);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint8_t* from = weights + (kFull ? row_at_[h] : tail_at_[h]) + tile * (S::kRowBlockRows * U::kBytes);
      L::fetch(raw[h], from, groups, group);
      if constexpr (L::kBlockScale) block_scale[h] = L::block_scale(from, groups, group / 8);
    }
    GroupCodes codes[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) L::unpack(codes[h], raw[h], group);
    if (tokens == 1) return multiply_tokens<1>(sum, codes, block_scale, integers, scales);
#pragma unroll
    for (int n = 0; n < kDotTokens; n += 2) { // an extra token's sums are not read
      if (n >= tokens) break;
      multiply_tokens<2>(sum + n, codes, block_scale, integers, scales);
    }
  }

  // Several tokens, so that products do not wait for each other; advances `integers` and `scales`.
  template <int kTokens>
  __device__ __forceinline__ void multiply_tokens(float (*sum)[2], const GroupCodes (&codes)[2],
                                                  const float (&block_scale)[2], const uint8_t*& integers,
                                                  const uint8_t*& scales) const {
    uint32_t b[kTokens][8];
    ColumnScales columns[kTokens];
#pragma unroll
    for (int n = 0; n < kTokens; ++n) {
      put(b[n], *reinterpret_cast<const uint4*>(integers));
      put(b[n] + 4, *reinterpret_cast<const uint4*>(integers + S::kPartBytes));
      columns[n] = *reinterpret_cast<const ColumnScales*>(scales);
      integers += integers_step_, scales += memory_.token_bytes;
    }
    int dots[kTokens][kDots][4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int n = 0; n < kTokens; ++n)
        mma_16x8x32(dots[n][i * kDots / 4],
                    {codes[0].word[2 * i], codes[1].word[2 * i], codes[0].word[2 * i + 1], codes[1].word[2 * i + 1]},
                    b[n][2 * i], b[n][2 * i + 1]);
#pragma unroll
    for (int n = 0; n < kTokens; ++n)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float product = group_product(codes[h], dots[n], h, columns[n]);
        sum[n][h] += L::kBlockScale ? block_scale[h] * product : product;
      }
  }

  static __device__ __forceinline__ float group_product(const GroupCodes& codes, const int (&dots)[kDots][4],
                                                        int second_row, const ColumnScales& x) {
    int dot[kDots];
#pragma unroll
    for (int i = 0; i < kDots; ++i) {
      const int bias = L::Bias::times(codes, kDots == 2 ? x.sum[i] : x.sum[0] + x.sum[1]),
                high = dots[i][2 * second_row];
      dot[i] = (kLow ? high * kHighPartFactor + dots[i][2 * second_row + 1] : high) + bias;
    }
    return L::Scales::product(codes, dot, x);
  }

  // Waits until the finishing warp has read the team's previous sums.
  __device__ __forceinline__ void hand_over(const Sums& sum, int tokens) {
    const int team = warp_ / args_.team;
    memory_.sums_empty(team).wait(sums_parity_ ^ 1);
    float* to = memory_.sums + warp_ * (kDotTokens * kBatchRows) + S::row(lane_ / 4, t_ % 2);
#pragma unroll
    for (int n = 0; n < kDotTokens; ++n) {
      if (n >= tokens) break;
      // Over the four lanes with other groups: even t get row g, odd ones row g + 8.
      float mine = t_ % 2 == 0 ? sum[n][0] : sum[n][1];
      mine += __shfl_xor_sync(~0U, t_ % 2 == 0 ? sum[n][1] : sum[n][0], 1);
      mine += __shfl_xor_sync(~0U, mine, 2);
      if (t_ < 2) to[n * kBatchRows] = mine;
    }
    __syncwarp();
    if (lane_ == 0) memory_.sums_full(team).arrive();
    sums_parity_ ^= 1;
  }

  const ExpertDotArgs& args_;
  const ExpertDotMemory<Format>& memory_;
  int lane_, warp_, t_;
  int full_tiles_, tail_groups_;
  int row_at_[2], tail_at_[2]; // offsets in a stage: in the first warp tile; in a partial last one
  int sums_parity_ = 0;
  bool has_activations_; // others read zeros
  int integers_pitch_, integers_step_;
};

// Finishes every third team's row tiles.
template <typename Format>
class ExpertDotFinisher {
  using S = ExpertDotShape<Format>;

 public:
  __device__ __forceinline__ ExpertDotFinisher(const ExpertDotArgs& args, const ExpertDotMemory<Format>& memory)
      : args_(args.product), memory_(memory), log2_team_(args.log2_team), lane_(threadIdx.x % kWarp) {}

  __device__ __forceinline__ void run(RowTileWalk walk, int first_team) const {
    const int teams = S::kConsumers >> log2_team_;
    const int rows = args_.gated ? kBatchRows / 2 : kBatchRows, tokens_at_once = kWarp / rows;
    const GemmSegment& segment = args_.product.segment[0];
    ExpertTile tile = {};
    int slots = 0;
    int parity = 0, team = -1, next = first_team, before = -1;
#pragma unroll 1
    for (; walk.left > 0; walk.advance(1)) {
      if (++team == teams) team = 0, next = first_team, parity ^= 1;
      if (team != next) continue;
      next += S::kFinishers;
      if (walk.token_tile != before) {
        before = walk.token_tile;
        tile = args_.tiles[before];
        if (lane_ < tile.count) slots = args_.order[tile.first + lane_];
      }
      const int row = walk.row_tile * rows + lane_ % rows;
      const RowEpilogue epilogue(args_.product, segment, args_.gated, row, tile.expert);
      memory_.sums_full(team).wait(parity);
#pragma unroll 1
      for (int token = lane_ / rows; token - lane_ / rows < tile.count; token += tokens_at_once) {
        const int at = token * kBatchRows + lane_ % rows;
        const float first = sum(team, at), up = args_.gated ? sum(team, at + kBatchRows / 2) : 0;
        const int slot = __shfl_sync(~0U, slots, token);
        if (token < tile.count && args_.gated) epilogue.write(slot, first, up, args_.glu);
        if (token < tile.count && !args_.gated) epilogue.write(slot, first);
      }
      __syncwarp();
      if (lane_ == 0) memory_.sums_empty(team).arrive();
    }
  }

 private:
  __device__ __forceinline__ float sum(int team, int at) const {
    const float* from = memory_.sums + (team << log2_team_) * (kDotTokens * kBatchRows) + at;
    float total = 0;
#pragma unroll 4
    for (int w = 0; w < 1 << log2_team_; ++w) total += from[w * (kDotTokens * kBatchRows)];
    return total * Layout<Format>::kConstantScale;
  }

  const BatchArgs& args_;
  const ExpertDotMemory<Format>& memory_;
  int log2_team_, lane_;
};

template <DotFormat Format>
__global__ void __launch_bounds__(ExpertDotShape<Format>::kThreads, 1)
    expert_dots_kernel(const __grid_constant__ ExpertDotArgs args) {
#if __CUDA_ARCH__ >= 900
  using S = ExpertDotShape<Format>;
  __shared__ ExpertDotBarriers<Format> barriers;
  const ExpertDotMemory<Format> memory(args, barriers);
  const auto init = [](auto& array, int warp, int arrivals) { // lanes of one warp would serialize
    if (threadIdx.x == warp * kWarp)
      for (CopyBarrier& barrier : array) barrier.init(arrivals);
  };
  init(barriers.full, 0, 1);
  init(barriers.empty, 1, args.team);
  init(barriers.sums_full, 2, args.team);
  init(barriers.sums_empty, 3, 1);
  fence_barrier_init();
  if (threadIdx.x < S::kZeroBytes / 4) reinterpret_cast<uint32_t*>(memory.zeros)[threadIdx.x] = 0;
  __syncthreads();
  stamp(args.product.stamps, kStarts);
  let_successor_start();
  wait_for_predecessor();
  stamp(args.product.stamps, kPredecessorDone);
  __shared__ BlockShare<Format> share;
  share.find(args.product);
  const int first = share.cut[0], count = share.cut[1] - first, warp = threadIdx.x / kWarp;
  if (count > 0) {
    if (warp < S::kConsumers) {
      ExpertDotConsumer<Format>(args, memory)
          .run({args, first, count, warp >> args.log2_team}, args.row_tile_count.quotient(first),
               args.row_tile_count.quotient(first + count - 1));
    } else if (warp < S::kConsumers + S::kFinishers) {
      ExpertDotFinisher<Format>(args, memory).run({args, first, count, 0}, warp - S::kConsumers);
    } else if (threadIdx.x % kWarp == 0) {
      fetch_row_tiles<Format>(args, memory, {args, first, count, 0});
    }
  }
  stamp_latest(args.product.stamps, kEnds);
#endif
}

} // namespace ridge::kernels::cuda
