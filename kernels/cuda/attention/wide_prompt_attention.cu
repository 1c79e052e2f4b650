// Prefill attention on Hopper for keys and values of 512 elements, and for latent attention, whose keys have up to 64
// elements more and whose values are the first 512 of them.
//
// A block takes 64 rows (query heads of tokens, numbered token by token): their outputs fill the registers of two
// warpgroups, 256 columns each. In a step of 64 keys each warpgroup scores 32 keys for all rows; both exchange maxima
// and, through shared memory, weights. The output products of a step overlap with the exponentials of the next one.
//
// One warp issues tensor copies. A slot has 64 keys x 256 columns, a group, in tiles of 64 columns, each with a
// barrier, so that scores begin with the first tile. Latent keys stay in their slots until their outputs are done.
#include "core/host_device/round_up.h"
#include "kernels/cuda/attention/wide_prompt_tile.cuh"
#include "kernels/cuda/runtime/wgmma_attention.cuh"

namespace ridge::kernels::cuda {
namespace {

#ifdef RIDGE_HAS_WGMMA

// A warpgroup that multiplies.
template <bool kLatent, bool kVaried>
class WideConsumer {
  using Shape = WideHeadsShape<kLatent>;
  static constexpr int kRows = Shape::kRows, kKeys = Shape::kKeys, kDim = Shape::kDim;
  static constexpr int kConsumers = Shape::kConsumers, kOwnKeys = Shape::kOwnKeys, kHeldTiles = Shape::kHeldTiles;
  static constexpr int kTileBytes = Shape::kTileBytes, kGroupTiles = Shape::kGroupTiles, kGroups = Shape::kGroups;

 public:
  __device__ __forceinline__ WideConsumer(const WideHeadsArgs& args, const WideHeadsTile<kLatent, kVaried>& tile,
                                          uint8_t* memory, WideHeadsShared<kLatent>& shared)
      : args_(args), tile_(tile), memory_(memory), shared_(shared), number_(static_cast<int>(threadIdx.x / 128) - 1),
        lane_(threadIdx.x % kWarp), t_(lane_ % 4), row_(threadIdx.x % 128 / kWarp * 16 + lane_ / 4) {
    load_queries();
    const AttentionArgs& a = args.attention;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Window::Span seen = tile.seen_by(row_ + 8 * half);
      visible_[half] = seen.end, hidden_[half] = seen.first;
      row_max_[half] = -INFINITY, row_sum_[half] = 0;
      if (!a.sinks) continue;
      const int64_t head = tile.head_of(min(row_ + 8 * half, tile.rows - 1)) % a.heads;
      row_max_[half] = a.sinks[head] * kLog2e;
      if (t_ == 0 && number_ == 0) row_sum_[half] = 1; // in one of the row's lanes
    }
#pragma unroll
    for (auto& group : out_)
#pragma unroll
      for (float& v : group) v = 0;
  }

  __device__ __forceinline__ void run() {
    const int steps = tile_.steps;
    {
      float score[kOwnKeys / 2];
      start_scores(score, 0);
      wgmma_wait<0>();
      release_keys(0);
      weigh(score, 0);
      take_weights(score);
    }
    for (int step = 0; step + 1 < steps; ++step) {
      float score[kOwnKeys / 2];
      start_scores(score, step + 1);
      wait_for_weights();
      start_outputs(step);
      wgmma_wait<kGroups>();
      release_keys(step + 1);
      weigh(score, step + 1);
      wgmma_wait<1>();
      release_values(step, 0);
      wgmma_wait<0>();
      release_values(step, 1);
      take_weights(score);
    }
    clear_behind(steps - 1);
    wait_for_weights();
    start_outputs(steps - 1);
    wgmma_wait<0>();
    write();
  }

 private:
  __device__ __forceinline__ uint8_t* slot(int fill) const {
    return memory_ + Shape::kSlotsAt + fill % Shape::kSlots * Shape::kSlotBytes;
  }
  __device__ __forceinline__ void wait_for_tile(int fill, int tile) const {
    shared_.full[fill % Shape::kSlots][tile].wait(fill / Shape::kSlots % 2);
  }
  __device__ __forceinline__ uint8_t* weights_of(int step) const {
    return memory_ + Shape::kWeightsAt + step % 2 * kTileBytes;
  }

  // In log2 units, zeros in rows that the tile lacks and behind the last column.
  __device__ __forceinline__ float2 query(int row, int column) const {
    if (row >= tile_.rows) return {0, 0};
    const AttentionArgs& a = args_.attention;
    const float scale = a.scale * kLog2e;
    const int64_t head = tile_.head_of(row);
    const float* from = a.q + head * kDim + column;
    if (kLatent && column >= kDim) {
      if (column >= kDim + args_.rest) return {0, 0};
      from = args_.q_rest + head * args_.rest + column - kDim;
    }
    const float2 v = *reinterpret_cast<const float2*>(from);
    return {v.x * scale, v.y * scale};
  }
  __device__ __forceinline__ void load_queries() {
    constexpr int kPairs = Shape::kQueryTiles * 32; // per row
#pragma unroll 4
    for (int i = threadIdx.x - 128; i < kRows * kPairs; i += kConsumers * 128) {
      const int row = i / kPairs, pair = i % kPairs;
      const float2 v = query(row, kHeldTiles * 64 + 2 * pair);
      *reinterpret_cast<uint32_t*>(memory_ + swizzled(row, pair / 4, kRows) + pair % 4 * 4) = pack_half2(v.x, v.y);
    }
#pragma unroll
    for (int k = 0; k < kHeldTiles * 4; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 v = query(row_ + 8 * (i % 2), 16 * k + 8 * (i / 2) + 2 * t_);
        held_[k][i] = pack_half2(v.x, v.y);
      }
    fence_shared_stores();
    wait_at_barrier<kConsumers * 128>(1);
  }

  __device__ __forceinline__ void start_scores(float (&score)[kOwnKeys / 2], int step) const {
    const int own = number_ * kOwnKeys * 128; // byte offset in a tile
#pragma unroll
    for (int tile = 0; tile < Shape::kKeyTiles; ++tile) {
      const uint8_t* keys;
      if (tile < kGroups * kGroupTiles) {
        const int fill = Shape::fill_of_keys(step, tile / kGroupTiles);
        wait_for_tile(fill, tile % kGroupTiles);
        keys = slot(fill) + tile % kGroupTiles * kTileBytes;
      } else {
        const int of = step % Shape::kRestSlots;
        shared_.rest_full[of].wait(step / Shape::kRestSlots % 2);
        keys = memory_ + Shape::kRestAt + of * kTileBytes;
      }
      const uint64_t b = tile_descriptor(keys + own);
      wgmma_fence(); // after each wait, otherwise the compiler serializes products
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (tile < kHeldTiles)
          wgmma(score, held_[tile < kHeldTiles ? 4 * tile + k : 0], b + 2 * k, tile + k > 0);
        else
          wgmma(score, tile_descriptor(memory_ + (tile - kHeldTiles) * kTileBytes) + 2 * k, b + 2 * k, tile + k > 0);
    }
    wgmma_commit();
  }
  __device__ __forceinline__ void release_keys(int step) const {
    if (lane_ != 0) return;
    if constexpr (kLatent)
      shared_.rest_empty[step % Shape::kRestSlots].arrive();
    else
      for (int group = 0; group < kGroups; ++group)
        shared_.empty[Shape::fill_of_keys(step, group) % Shape::kSlots].arrive();
  }
  __device__ __forceinline__ void release_values(int step, int group) const {
    if (lane_ == 0) shared_.empty[Shape::fill_of_values(step, group) % Shape::kSlots].arrive();
  }

  // Replaces the scores of the warpgroup's keys by their exponentials, which it also stores for the other warpgroup.
  __device__ __forceinline__ void weigh(float (&score)[kOwnKeys / 2], int step) {
    const int first = tile_.first_key + step * kKeys;
    const bool masks = first + kKeys > tile_.seen_first.end || (kVaried && first < tile_.seen_last.first);
    if (kVaried && args_.attention.soft_cap > 0) {
      const float cap = args_.attention.soft_cap * kLog2e, by = 2 * kLog2e / cap;
#pragma unroll
      for (float& s : score) s = cap - 2 * cap * reciprocal(exp2_approx(s * by) + 1); // cap * tanh(s / cap)
    }
    if (masks) {
      const int key = first + number_ * kOwnKeys + 2 * t_;
#pragma unroll
      for (int i = 0; i < kOwnKeys / 2; ++i) {
        const int half = i / 2 % 2, at = key + i / 4 * 8 + i % 2;
        if (at >= visible_[half] || (kVaried && at < hidden_[half])) score[i] = -INFINITY;
      }
    }
    float most[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      most[half] = row_max_[half];
#pragma unroll
      for (int i = 0; i < kOwnKeys / 4; ++i) most[half] = fmaxf(most[half], score[4 * (i / 2) + 2 * half + i % 2]);
      most[half] = fmaxf(most[half], __shfl_xor_sync(~0u, most[half], 1));
      most[half] = fmaxf(most[half], __shfl_xor_sync(~0u, most[half], 2));
      if (t_ == 0) shared_.exchanged[number_][row_ + 8 * half] = most[half];
    }
    wait_at_barrier<kConsumers * 128>(1);
    uint8_t* to = weights_of(step);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      most[half] = fmaxf(most[half], shared_.exchanged[number_ ^ 1][row_ + 8 * half]);
      const float reference = kVaried && most[half] == -INFINITY ? 0 : most[half]; // the row has seen no key yet
      rescale_factor_[half] = exp2_approx(row_max_[half] - reference);
      row_max_[half] = most[half];
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kOwnKeys / 8; ++j) {
        const float low = exp2_approx(score[4 * j + 2 * half] - reference),
                    high = exp2_approx(score[4 * j + 2 * half + 1] - reference);
        sum += low + high;
        score[4 * j + 2 * half] = low, score[4 * j + 2 * half + 1] = high;
        *reinterpret_cast<uint32_t*>(to + swizzled(row_ + 8 * half, number_ * kOwnKeys / 8 + j, kRows) + 4 * t_) =
            pack_half2(low, high);
      }
      row_sum_[half] = row_sum_[half] * rescale_factor_[half] + sum;
    }
    fence_shared_stores();
  }
  // Both warpgroups have stored the weights, and read the maxima.
  __device__ __forceinline__ void wait_for_weights() const { wait_at_barrier<kConsumers * 128>(2); }
  // Call when the previous outputs are complete.
  __device__ __forceinline__ void take_weights(const float (&score)[kOwnKeys / 2]) {
#pragma unroll
    for (int j = 0; j < kOwnKeys / 8; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t& pair = weights_[j / 2][j % 2 * 2 + half];
        pair = pack_half2(score[4 * j + 2 * half], score[4 * j + 2 * half + 1]);
        asm volatile("" : "+r"(pair)); // now, not between products
      }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!__any_sync(~0u, rescale_factor_[half] != 1)) continue; // rarely true after the first steps
#pragma unroll
      for (auto& group : out_)
#pragma unroll
        for (int j = 0; j < 16; ++j) {
          group[4 * j + 2 * half] *= rescale_factor_[half];
          group[4 * j + 2 * half + 1] *= rescale_factor_[half];
        }
    }
  }

  // The cache has arbitrary bits behind the last value, and 0 * NaN is NaN.
  __device__ __forceinline__ void clear_behind(int step) const {
    const int first = tile_.length - (tile_.first_key + step * kKeys);
    if (first >= kKeys) return;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const int fill = Shape::fill_of_values(step, group);
#pragma unroll
      for (int tile = 0; tile < kGroupTiles; ++tile) wait_for_tile(fill, tile);
      for (int i = threadIdx.x - 128; i < (kKeys - first) * kGroupTiles * 8; i += kConsumers * 128)
        *reinterpret_cast<uint4*>(slot(fill) + swizzled(first + i / (kGroupTiles * 8), i % (kGroupTiles * 8), kKeys)) =
            uint4{};
    }
    fence_shared_stores();
  }

  // Two tiles of each group.
  __device__ __forceinline__ void start_outputs(int step) {
    constexpr int kSpanBytes = 16 * 128; // 16 keys in a tile
    const int own = number_ * (kOwnKeys / 16), other = kOwnKeys / 16 - own;
    const uint64_t weights = tile_descriptor(weights_of(step)) + 2 * other;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const int fill = Shape::fill_of_values(step, group);
      if (!kLatent)
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) wait_for_tile(fill, 2 * number_ + tile);
      wgmma_fence();
      const uint8_t* values = slot(fill) + 2 * number_ * kTileBytes;
#pragma unroll
      for (int k = 0; k < kOwnKeys / 16; ++k)
        wgmma_transposed(out_[group], weights_[k],
                         transposed_tile_descriptor(values + (own + k) * kSpanBytes, kTileBytes));
#pragma unroll
      for (int k = 0; k < kOwnKeys / 16; ++k)
        wgmma_transposed(out_[group], weights + 2 * k,
                         transposed_tile_descriptor(values + (other + k) * kSpanBytes, kTileBytes));
      wgmma_commit();
    }
  }

  __device__ __forceinline__ void write() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      row_sum_[half] += __shfl_xor_sync(~0u, row_sum_[half], 1);
      row_sum_[half] += __shfl_xor_sync(~0u, row_sum_[half], 2);
      if (t_ == 0) shared_.exchanged[number_][row_ + 8 * half] = row_sum_[half];
    }
    wait_at_barrier<kConsumers * 128>(1);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row_ + 8 * half;
      if (row >= tile_.rows) continue;
      const float by = 1 / (row_sum_[half] + shared_.exchanged[number_ ^ 1][row]);
      float* to = args_.attention.out + tile_.head_of(row) * kDim + number_ * 128 + 2 * t_;
#pragma unroll
      for (int group = 0; group < kGroups; ++group)
#pragma unroll
        for (int j = 0; j < 16; ++j)
          *reinterpret_cast<float2*>(to + group * 256 + 8 * j) = {out_[group][4 * j + 2 * half] * by,
                                                                  out_[group][4 * j + 2 * half + 1] * by};
    }
  }

  const WideHeadsArgs& args_;
  const WideHeadsTile<kLatent, kVaried>& tile_;
  uint8_t* memory_;
  WideHeadsShared<kLatent>& shared_;
  const int number_, lane_, t_, row_; // row_: the lane's first of two, 8 apart
  int visible_[2], hidden_[2];        // a row sees keys [hidden, visible)
  float row_max_[2], row_sum_[2], rescale_factor_[2];
  uint32_t held_[kHeldTiles * 4][4], weights_[kOwnKeys / 16][4];
  float out_[kGroups][64];
};

#endif

template <bool kLatent, bool kVaried>
__global__ void __launch_bounds__(WideHeadsShape<kLatent>::kThreads, 1)
    wide_prompt_attention_kernel(const __grid_constant__ WideHeadsArgs args) {
#ifdef RIDGE_HAS_WGMMA
  constexpr int kConsumers = WideHeadsShape<kLatent>::kConsumers;
  extern __shared__ uint8_t dynamic[];
  __shared__ WideHeadsShared<kLatent> shared;
  uint8_t* memory = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  if (threadIdx.x == 0) {
    for (auto& slot : shared.full)
      for (CopyBarrier& tile : slot) tile.init(1);
    for (CopyBarrier& slot : shared.empty) slot.init(kConsumers * 4);
    for (CopyBarrier& slot : shared.rest_full) slot.init(1);
    for (CopyBarrier& slot : shared.rest_empty) slot.init(kConsumers * 4);
    fence_barrier_init();
  }
  let_successor_start();
  wait_for_predecessor();
  const WideHeadsTile<kLatent, kVaried> tile(args.attention);
  __syncthreads();
  if (threadIdx.x < 128) {
    give_registers<24>();
    if (threadIdx.x < kWarp) copy_keys_and_values<kLatent>(args, tile, memory, shared);
  } else {
    take_registers<240>();
    WideConsumer<kLatent, kVaried>(args, tile, memory, shared).run();
  }
#endif
}

constexpr int kRows = WideHeadsShape<false>::kRows;

int tiles_of(int tokens, const Divisor& heads) { return core::ceil_div(tokens * heads.by, kRows); }

// Fewer blocks are slower than kernels that also divide a tile's keys.
bool fills(const Launch& launch, int blocks) { return 4 * blocks >= launch.sm_count; }

template <bool kLatent, bool kVaried>
void launch_wide(const Launch& launch, const AttentionArgs& args, const float* q_rest) {
  const Cache& cache = args.cache;
  using Shape = WideHeadsShape<kLatent>;
  const WideHeadsArgs wide = {args, q_rest, cache.k_dim - Shape::kDim,
                              cache_maps(cache, kLatent ? cache.k : cache.v, Shape::kKeys)};
  constexpr int kShared = Shape::kSharedBytes;
  const auto kernel = wide_prompt_attention_kernel<kLatent, kVaried>;
  allow_dynamic_shared_memory(kernel, kShared);
  launch(kernel, dim3(cache.heads, tiles_of(args.tokens, args.group)), Shape::kThreads, kShared, wide);
}

} // namespace

void launch_wide_prompt_attention(const Launch& launch, const AttentionArgs& args) {
  const bool can_divide_keys = !args.places && args.group.by <= kAttentionRows;
  if (can_divide_keys && !fills(launch, tiles_of(args.tokens, args.group) * args.cache.heads))
    return launch_wide_attention(launch, args);
  const bool varied = args.visible.size > 0 || args.soft_cap > 0 || args.places;
  varied ? launch_wide<false, true>(launch, args, nullptr) : launch_wide<false, false>(launch, args, nullptr);
}

bool can_attend_latent_prompts(const Launch& launch, const LatentArgs& args) {
  constexpr int kMaxGrid = 65535; // of dimension y
  const int blocks = tiles_of(args.tokens, args.heads);
  return args.cache.k_half && args.cache.v_dim == kWidePromptHead && args.cache.k_dim - kWidePromptHead <= 64 &&
         args.tokens_share_tiles && !args.places && !args.sinks && args.window == 0 && args.span == 0 &&
         fills(launch, blocks) && blocks <= kMaxGrid;
}

void launch_latent_prompt_attention(const Launch& launch, const LatentArgs& latent) {
  AttentionArgs args = {};
  args.q = latent.q;
  args.out = latent.out;
  args.positions = latent.positions;
  args.streams = latent.streams;
  args.tokens = latent.tokens;
  args.heads = latent.heads.by;
  args.group = latent.heads;
  args.scale = latent.scale;
  args.visible = {};
  args.cache = latent.cache;
  launch_wide<true, false>(launch, args, latent.q_rest);
}

} // namespace ridge::kernels::cuda
