// Causal attention over a cache of f16 or codes, for one token or a few.
//
// A tile is up to 16 rows: a KV head's query heads times consecutive tokens. In a round of 128 keys each warp scores 16
// keys; after the round's only barrier it makes 16 output columns from all weights and values, in shared memory. Warps
// exchange exponentials and maxima, rounded up to integers in log2 units so that rescaling is exact. Long contexts are
// split over blocks; the one with the last ticket merges.
//
// kRope fuses norm, rope and storing, to save a kernel per layer. In NewTokens::run tokens see each other's keys, but
// blocks cannot wait for each other. So each block recomputes all new keys and values that its tile sees in its split,
// in shared memory, and reads only older rows from the cache; only a token's own tile stores its key.
//
// Heads of 256 have one block per multiprocessor, narrower ones two: equal bytes in flight. Other widths up to 256 use
// ragged kernels, the only ones with soft caps; these never fuse rope.
#include "kernels/cuda/attention/attention_fetch.cuh"
#include "kernels/cuda/attention/attention_merge.cuh"
#include "kernels/cuda/attention/attention_rounds.cuh"
#include "kernels/cuda/attention/coded_attention.h"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

template <int kDim, bool kRagged, bool kKeyCodes, bool kValueCodes, int kTiles, NewTokens kNew>
__global__ void __launch_bounds__(kAttentionThreads, attention_blocks_per_sm(kDim))
    attention_kernel(const __grid_constant__ AttentionArgs args, const __grid_constant__ RopeStoreArgs heads) {
  using Shape = AttentionShape<kDim, kRagged, kKeyCodes, kValueCodes, kTiles, kNew>;
  constexpr bool kRope = Shape::kRope;
  using Round = RoundOf<Shape>;
  __shared__ __align__(16) Queries<Shape> query;
  extern __shared__ uint4 dynamic[];
  auto* const rounds = reinterpret_cast<Round*>(dynamic);
  const bool two_rounds = dynamic_shared_bytes() >= 2 * sizeof(Round);
  __shared__ NewestOf<Shape> newest;
  __shared__ Sinks sinks;
  AttentionBlock<Shape> block(args);
  let_successor_start();
  stamp(args.stamps, kStarts);

  // All loads that the first fetches depend on: their latencies overlap.
  const int64_t stream = args.streams[block.first_token];
  const int length = args.positions[block.first_token + block.tokens - 1] + 1;
  const RopePair rope(heads, kRope, Shape::kRun ? threadIdx.x % (kDim / 2) : threadIdx.x);
  __syncwarp(); // keeps the assembler from serializing loads
  if (!block.take_split(stream, length)) return;
  if constexpr (!kRope) {
    wait_for_predecessor(); // stores the newest keys
    stamp(args.stamps, kPredecessorDone);
  }

  const AttentionKeys<Shape> keys(block);
  typename AttentionKeys<Shape>::Fragment key;
  const AttentionValues<Shape> values(block);
  typename AttentionValues<Shape>::Fragment value;
  const int first_base = block.begin + block.warp * kKeysPerWarp;
  if (first_base < block.end) keys.fetch(key, first_base);
  values.fetch(value, block.begin, rounds[0]);
  if (args.sinks && static_cast<int>(threadIdx.x) < block.rows)
    sinks[threadIdx.x] = args.sinks[block.kv_head * block.group + block.head_of(threadIdx.x)] * kLog2e;
  AttentionVectors<Shape>(block, heads).store(query, newest, rope);
  __syncthreads();
  stamp(args.stamps, kInputLoaded);

  int visible[kTiles][2];
  find_visible(visible, block);
  const AttentionOutputs<Shape> outputs(block);
  typename AttentionOutputs<Shape>::Running running;
  running.clear();
  if (args.sinks && block.split == 0) outputs.add_sinks(running, sinks);
  int stage = 0;
#pragma unroll 1
  for (int round_base = block.begin;;) {
    Round& round = rounds[stage];
    const int base = round_base + block.warp * kKeysPerWarp, next = base + kKeysPerRound;
    ScoreRound<Shape> scores;
    scores.clear();
    if (base < block.end) {
      keys.take_newest(key, base, newest);
      typename ScoreRound<Shape>::Scores score = {};
      scores.multiply(score, block, keys, key, query);
      if (next < block.end) keys.fetch(key, next);
      if (Shape::kRagged && args.soft_cap > 0) cap_scores<Shape>(score, args.soft_cap * kLog2e);
      scores.find_weights(score, keys, base, visible);
    }
    scores.share(block, round);
    values.finish_fetch(value, round_base, round, newest);
    __syncthreads();
    if (two_rounds && round_base + kKeysPerRound < block.end)
      values.fetch(value, round_base + kKeysPerRound, rounds[stage ^ 1]);
    outputs.add_round(running, round, round_base <= block.begin);
    round_base += kKeysPerRound;
    if (round_base >= block.end) break;
    if (two_rounds) {
      stage ^= 1;
    } else {
      __syncthreads();
      values.fetch(value, round_base, round);
    }
  }
  outputs.merge_parts(running, dynamic);
  if (Shape::kValueCodes && args.cache.rotates_v() && block.used_splits == 1)
    outputs.write_rotated(running, dynamic);
  else
    outputs.write(running, nullptr);
  if (args.exponents && block.kv_head == 0 && block.split == 0 && static_cast<int>(threadIdx.x) < block.tokens)
    args.exponents[block.first_token + threadIdx.x] = 0;

  if (block.used_splits > 1 && !merge_splits(block, dynamic)) {
    stamp_latest(args.stamps, kEnds);
    return;
  }
  stamp_latest(args.stamps, kEnds);
  if (kRope && heads.dataflow_input) wait_for_predecessor(); // successors rely on it (ptx.cuh)
}

template <int kDim, NewTokens kNew>
constexpr int kMaxStaticBytes = kAttentionRows*(kDim + 32) * 2 +
                                (kNew == NewTokens::run ? kAttentionRows * (8 * kDim + 64) : 9 * kDim) + 128;

template <int kDim, bool kRagged, int kTiles, NewTokens kNew>
auto fast_kernel(const Cache& cache) {
  if constexpr (kNew == NewTokens::run) {
    return attention_kernel<kDim, false, false, false, kTiles, kNew>;
  } else if constexpr (kRagged) {
    return cache.k_codes() ? attention_kernel<kDim, true, true, true, kTiles, kNew>
                           : attention_kernel<kDim, true, false, false, kTiles, kNew>;
  } else {
    if (cache.k_codes())
      return cache.v_codes() ? attention_kernel<kDim, false, true, true, kTiles, kNew>
                             : attention_kernel<kDim, false, true, false, kTiles, kNew>;
    return cache.v_codes() ? attention_kernel<kDim, false, false, true, kTiles, kNew>
                           : attention_kernel<kDim, false, false, false, kTiles, kNew>;
  }
}
template <int kDim, bool kRagged, int kTiles, NewTokens kNew>
void launch_fast(const Launch& launch, const AttentionArgs& args, const RopeStoreArgs& heads) {
  constexpr int kRoundBytes = sizeof(AttentionRound<kDim, kTiles>);
  constexpr int kTwoStages = std::max(80 << 10, 2 * kRoundBytes + kMaxStaticBytes<kDim, kNew>);
  const int stages = launch.shared_per_block >= kTwoStages ? 2 : 1;
  const auto kernel = fast_kernel<kDim, kRagged, kTiles, kNew>(args.cache);
  allow_dynamic_shared_memory(kernel, stages * kRoundBytes);
  const int tiles = (args.tokens + args.tile_tokens - 1) / args.tile_tokens;
  // Heads first: in short contexts blocks with work start first.
  launch(kernel, dim3(args.cache.heads, args.splits, tiles), kAttentionThreads, stages * kRoundBytes, args, heads);
}
template <int kDim, bool kRagged, NewTokens kNew>
void launch_fast(const Launch& launch, const AttentionArgs& args, const RopeStoreArgs& heads) {
  const bool narrow = std::min(args.tile_tokens, args.tokens) * args.group.by <= 8;
  narrow ? launch_fast<kDim, kRagged, 1, kNew>(launch, args, heads)
         : launch_fast<kDim, kRagged, 2, kNew>(launch, args, heads);
}
template <int kDim>
void launch_rope(const Launch& launch, const AttentionArgs& args, const RopeStoreArgs& heads, bool one_run) {
  one_run ? launch_fast<kDim, false, NewTokens::run>(launch, args, heads)
          : launch_fast<kDim, false, NewTokens::alone>(launch, args, heads);
}

// The kernel's width for heads of `width`, or 0.
int kernel_width(int width) {
  if (width < 16 || width > 256 || width % 16 != 0) return 0;
  return width == 64 ? 64 : width <= 128 ? 128 : 256;
}
bool is_ragged(const Cache& cache, float soft_cap) { return kernel_width(cache.k_dim) != cache.k_dim || soft_cap > 0; }

template <int kDim, NewTokens kNew>
constexpr int kMinShared = sizeof(AttentionRound<kDim, 2>) + kMaxStaticBytes<kDim, kNew>;

template <int kDim>
bool takes_rope(const ChipLimits& chip, const AttentionArgs& args, const RopeStoreArgs& heads, bool one_run) {
  const Cache& cache = heads.cache;
  if (!one_run && has_coded_attention(cache, args.group.by, chip)) return Quad<kDim>::takes(heads.rope, false);
  if (cache.rotates_k() || cache.rotates_v()) return false;
  const bool codes = cache.k_codes() || cache.v_codes();
  if (one_run && (codes || chip.shared_per_block < kMinShared<kDim, NewTokens::run>)) return false;
  return Quad<kDim>::takes(heads.rope, codes);
}

} // namespace

bool fast_attention(const Cache& cache, float soft_cap, const ChipLimits& chip) {
  if (wide_attention(cache, chip)) return true;
  const bool f16_or_codes = (cache.k_half || cache.k_codes()) && (cache.v_half || cache.v_codes());
  if (!f16_or_codes || cache.k_dim != cache.v_dim) return false;
  const int width = kernel_width(cache.k_dim);
  if (is_ragged(cache, soft_cap) && cache.k_codes() != cache.v_codes()) return false;
  if (cache.k_codes() && cache.k_dim % 32 != 0) return false;
  return width == 256 ? chip.shared_per_block >= kMinShared<256, NewTokens::alone> : width > 0;
}

bool can_fuse_rope(const ChipLimits& chip, const AttentionArgs& args, const RopeStoreArgs& heads, bool one_run) {
  const Cache& cache = args.cache;
  if ((args.tile_tokens != 1 && !one_run) || args.soft_cap > 0 || args.max_bias > 0 ||
      !fast_attention(cache, 0, chip) || args.group.by > kAttentionRows)
    return false;
  if (heads.head_dim != cache.k_dim) return false;
  switch (cache.k_dim) {
  case 64: return takes_rope<64>(chip, args, heads, one_run);
  case 128: return takes_rope<128>(chip, args, heads, one_run);
  case 256: return takes_rope<256>(chip, args, heads, one_run);
  default: return false;
  }
}

void launch_rope_attention(const Launch& launch, const AttentionArgs& args, const RopeStoreArgs& heads, bool one_run) {
  if (!one_run && has_coded_attention(args.cache, args.group.by, launch))
    return launch_coded_rope_attention(launch, args, heads);
  switch (args.cache.k_dim) {
  case 64: return launch_rope<64>(launch, args, heads, one_run);
  case 128: return launch_rope<128>(launch, args, heads, one_run);
  default: return launch_rope<256>(launch, args, heads, one_run);
  }
}

void launch_attention(const Launch& launch, const AttentionArgs& args) {
  if (!fast_attention(args.cache, args.soft_cap, launch) || args.group.by > kAttentionRows)
    return launch_plain_attention(launch, args);
  if (wide_attention(args.cache, launch)) return launch_wide_attention(launch, args);
  if (has_coded_attention(args.cache, std::min(args.tile_tokens, args.tokens) * args.group.by, launch))
    return launch_coded_attention(launch, args);
  const bool ragged = is_ragged(args.cache, args.soft_cap);
  switch (kernel_width(args.cache.k_dim)) {
  case 64:
    return ragged ? launch_fast<128, true, NewTokens::stored>(launch, args, {})
                  : launch_fast<64, false, NewTokens::stored>(launch, args, {});
  case 128:
    return ragged ? launch_fast<128, true, NewTokens::stored>(launch, args, {})
                  : launch_fast<128, false, NewTokens::stored>(launch, args, {});
  default:
    return ragged ? launch_fast<256, true, NewTokens::stored>(launch, args, {})
                  : launch_fast<256, false, NewTokens::stored>(launch, args, {});
  }
}

} // namespace ridge::kernels::cuda
