// Prefill attention on Hopper: one warp issues tensor copies, two or three warpgroups of 64 rows multiply.
//
// Keys and values have separate slots, because keys are free one step earlier. Heads of 256 need 128 registers for
// outputs and take 64 keys per step.
//
// kVaried: windows, soft caps and tokens that see later ones; neither end of what a token sees may decrease from token
// to token. kRagged: other widths up to 128, with zeros behind the rows in shared memory.
#include "kernels/cuda/attention/prompt_attention.cuh"
#include "kernels/cuda/attention/wide_prompt_attention.h"
#include "kernels/cuda/runtime/wgmma_attention.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

template <int kDim, int kWarpgroups>
struct AttentionShape {
  static constexpr int kConsumers = kWarpgroups, kRows = 64 * kConsumers, kThreads = (kConsumers + 1) * 128;
  static constexpr bool kWide = kDim > 128;
  static constexpr int kKeys = kWide ? 64 : kConsumers == 3 ? 96 : 128; // as registers allow
  static constexpr int kStored = (kDim + 63) / 64 * 64;
  static constexpr int kSlots = kWide ? 4 : 6; // each of a step's keys or values
  static constexpr int kQueryBytes = kRows * kStored * 2, kKeyBytes = kKeys * kStored * 2;
  static constexpr int kSharedBytes = kQueryBytes + kSlots * kKeyBytes + 1024;
};

#ifdef RIDGE_HAS_WGMMA

constexpr int kChains = 4; // independent chains of maxima and sums

#endif

template <int kDim, bool kVaried, bool kRagged, int kConsumers>
__global__ void __launch_bounds__(AttentionShape<kDim, kConsumers>::kThreads, 1)
    prompt_attention_kernel(const __grid_constant__ AttentionArgs args, const __grid_constant__ CacheMaps maps) {
#ifdef RIDGE_HAS_WGMMA
  using Shape = AttentionShape<kDim, kConsumers>;
  constexpr int kKeys = Shape::kKeys, kSlots = Shape::kSlots, kRows = Shape::kRows;
  extern __shared__ uint8_t dynamic[];
  __shared__ CopyBarrier full[kSlots], empty[kSlots];
  uint8_t* queries = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  uint8_t* slots = queries + Shape::kQueryBytes;
  const Cache& cache = args.cache;
  const int warpgroup = threadIdx.x / 128, thread = threadIdx.x % 128, lane = threadIdx.x % kWarp;
  const int group = args.heads / cache.heads, kv_head = blockIdx.x;
  const int tile = static_cast<int>(gridDim.y - 1 - blockIdx.y); // the longest first
  const int first_token = tile * args.tile_tokens, tokens = min(args.tile_tokens, args.tokens - first_token);
  if (threadIdx.x == 0) {
    for (int s = 0; s < kSlots; ++s) full[s].init(1), empty[s].init(kConsumers * 4);
    fence_barrier_init();
  }
  let_successor_start();
  wait_for_predecessor();
  const int width = kRagged ? cache.k_dim : kDim;
  const int first_position = args.positions[first_token];
  const auto seen_by = [&](int token) {
    const int position = first_position + token;
    if (kVaried && args.places) return args.visible.seen_from(position, args.places[first_token + token]);
    return Window::Span{kVaried ? args.visible.first_seen(position) : 0, position + 1};
  };
  const Window::Span seen_first = seen_by(0), seen_last = seen_by(tokens - 1);
  const int first_key = seen_first.first / kRingBoxRows * kRingBoxRows,
            length = seen_last.end; // first_key: of the first step; length: of all
  const int steps = (length - first_key + kKeys - 1) / kKeys;
  __syncthreads();

  if (warpgroup == 0) {
    give_registers<kConsumers == 3 ? 32 : 56>();
    if (thread >= kWarp) return;
    const int head = args.streams[first_token] * cache.heads + kv_head;
    const RowsFrom row_of(cache, first_key);
    constexpr int kColumnTiles = Shape::kStored / 64;
    for (int fill = 0; fill < 2 * steps; ++fill) { // keys, values, …
      const int slot = fill % kSlots, key = first_key + fill / 2 * kKeys;
      const int rows = maps.box_rows, boxes = (min(kKeys, length - key) + rows - 1) / rows;
      empty[slot].wait(fill / kSlots % 2 ^ 1);
      if (lane == 0) BarrierAddress(&full[slot]).arrive_expecting(kColumnTiles * boxes * rows * 128);
      __syncwarp();
      for (int i = lane; i < kColumnTiles * boxes; i += kWarp) {
        const int box = i % boxes, tile = i / boxes;
        uint8_t* to = slots + slot * Shape::kKeyBytes + tile * kKeys * 128 + box * rows * 128;
        copy_box(to, fill % 2 ? maps.values : maps.keys, 64 * tile, row_of(key + box * rows), head, full[slot]);
      }
    }
    return;
  }

  take_registers<kConsumers == 3 ? 160 : 224>();
  const int consumer = warpgroup - 1, g = lane / 4, t = lane % 4;
  // In log2 units, in the order of tokens, then heads.
  for (int i = thread; i < 64 * kDim / 8; i += 128) {
    const int row = consumer * 64 + i / (kDim / 8), piece = i % (kDim / 8);
    float v[8] = {};
    if (row < tokens * group && (!kRagged || 8 * piece < width)) {
      const float scale = args.scale * kLog2e;
      const auto* q =
          reinterpret_cast<const float4*>(
              args.q + (int64_t{first_token + row / group} * args.heads + kv_head * group + row % group) * width) +
          2 * piece;
      const float4 a = q[0], b = q[1];
      v[0] = a.x * scale, v[1] = a.y * scale, v[2] = a.z * scale, v[3] = a.w * scale;
      v[4] = b.x * scale, v[5] = b.y * scale, v[6] = b.z * scale, v[7] = b.w * scale;
    }
    *reinterpret_cast<uint4*>(queries + swizzled(row, piece, kRows)) = {pack_half2(v[0], v[1]), pack_half2(v[2], v[3]),
                                                                        pack_half2(v[4], v[5]), pack_half2(v[6], v[7])};
  }
  fence_shared_stores();
  wait_at_barrier<128>(warpgroup);

  const int first_row = consumer * 64 + thread / kWarp * 16 + g; // this lane's first of two rows, 8 apart
  int visible[2], hidden[2] = {0, 0};                            // a row sees keys [hidden, visible)
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Window::Span seen = seen_by(min(first_row + 8 * half, tokens * group - 1) / group);
    visible[half] = seen.end;
    if constexpr (kVaried) hidden[half] = seen.first;
  }
  float out[kDim / 2], row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0, 0};
  if (args.sinks)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      row_max[half] = args.sinks[kv_head * group + min(first_row + 8 * half, tokens * group - 1) % group] * kLog2e;
      if (t == 0) row_sum[half] = 1; // in one of the row's four lanes
    }
#pragma unroll
  for (float& v : out) v = 0;
  const auto fill_of_keys = [](int step) { return 2 * step; };
  const auto fill_of_values = [](int step) { return 2 * step + 1; };
  const auto release = [&](int fill) {
    if (lane == 0) empty[fill % kSlots].arrive();
  };
  const auto start_scores = [&](float(&score)[kKeys / 2], int step) {
    const int fill = fill_of_keys(step);
    const uint8_t* keys = slots + fill % kSlots * Shape::kKeyBytes;
    full[fill % kSlots].wait(fill / kSlots % 2);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
      const int column_tile = k / 4;
      wgmma(score, tile_descriptor(queries + column_tile * kRows * 128 + consumer * 64 * 128) + 2 * (k % 4),
            tile_descriptor(keys + column_tile * kKeys * 128) + 2 * (k % 4), k > 0);
    }
    wgmma_commit();
  };
  uint32_t weights[kKeys / 16][4];
  float rescale_factor[2]; // factor of the outputs so far
  // Replaces the scores by their exponentials.
  const auto exponentiate = [&](auto plain, auto& score, int step) {
    constexpr bool kPlain = decltype(plain)::value; // no masks, no soft cap
    const int base = first_key + step * kKeys + 2 * t;
    const float cap = kVaried ? args.soft_cap * kLog2e : 0, by = 2 * kLog2e / cap;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest[kChains];
#pragma unroll
      for (float& of : largest) of = row_max[half];
#pragma unroll
      for (int i = 0; i < kKeys / 4; ++i) {
        float& s = score[4 * (i / 2) + 2 * half + i % 2];
        if constexpr (!kPlain) {
          const int key = base + 8 * (i / 2) + i % 2;
          if (kVaried && cap > 0) s = cap - 2 * cap * reciprocal(exp2_approx(s * by) + 1); // cap * tanh(s / cap)
          if (key >= visible[half] || (kVaried && key < hidden[half])) s = -INFINITY;
        }
        largest[i % kChains] = fmaxf(largest[i % kChains], s);
      }
      float most = fmaxf(fmaxf(largest[0], largest[1]), fmaxf(largest[2], largest[3]));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      // Without a window every row sees key 0; with one perhaps nothing in the first steps.
      const float reference = kVaried && !kPlain && most == -INFINITY ? 0 : most;
      rescale_factor[half] = exp2_approx(row_max[half] - reference);
      row_max[half] = most;
      float sum[kChains] = {};
#pragma unroll
      for (int i = 0; i < kKeys / 4; ++i) {
        float& s = score[4 * (i / 2) + 2 * half + i % 2];
        s = exp2_approx(s - reference);
        sum[i % kChains] += s;
      }
      row_sum[half] = row_sum[half] * rescale_factor[half] + (sum[0] + sum[1] + (sum[2] + sum[3]));
    }
  };
  const auto exponentiate_step = [&](auto& score, int step) {
    const int first = first_key + step * kKeys;
    const bool masks = first + kKeys > seen_first.end || (kVaried && first < seen_last.first);
    if (masks || (kVaried && args.soft_cap > 0))
      exponentiate(std::false_type(), score, step);
    else
      exponentiate(std::true_type(), score, step);
  };
  // Call when the previous outputs are complete.
  const auto make_weights = [&](const auto& score) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j)
        weights[j / 2][j % 2 * 2 + half] = pack_half2(score[4 * j + 2 * half], score[4 * j + 2 * half + 1]);
      if (!__any_sync(~0u, rescale_factor[half] != 1)) continue; // rarely true after the first steps
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) {
        out[4 * j + 2 * half] *= rescale_factor[half];
        out[4 * j + 2 * half + 1] *= rescale_factor[half];
      }
    }
  };
  // The cache has arbitrary bits behind the last value, and 0 * NaN is NaN.
  const auto clear_behind = [&](int step) {
    const int first = length - (first_key + step * kKeys), fill = fill_of_values(step);
    if (first >= kKeys) return;
    uint8_t* values = slots + fill % kSlots * Shape::kKeyBytes;
    full[fill % kSlots].wait(fill / kSlots % 2);
    constexpr int kPieces = Shape::kStored / 8, kMultiplying = kConsumers * 128;
    for (int i = threadIdx.x - 128; i < (kKeys - first) * kPieces; i += kMultiplying)
      *reinterpret_cast<uint4*>(values + swizzled(first + i / kPieces, i % kPieces, kKeys)) = uint4{};
    fence_shared_stores();
    wait_at_barrier<kMultiplying>(kConsumers + 1);
  };
  const auto start_outputs = [&](int step) {
    const int fill = fill_of_values(step);
    const uint8_t* values = slots + fill % kSlots * Shape::kKeyBytes;
    full[fill % kSlots].wait(fill / kSlots % 2);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k)
      wgmma_transposed(out, weights[k], transposed_tile_descriptor(values + k * 16 * 128, kKeys * 128));
    wgmma_commit();
  };
  // A step's output products start right after the next step's scores and overlap with their exponentials.
  {
    float score[kKeys / 2];
    start_scores(score, 0);
    wgmma_wait<0>();
    release(fill_of_keys(0));
    exponentiate_step(score, 0);
    make_weights(score);
  }
  for (int step = 0; step + 1 < steps; ++step) {
    float score[kKeys / 2];
    start_scores(score, step + 1);
    start_outputs(step);
    wgmma_wait<1>();
    release(fill_of_keys(step + 1));
    exponentiate_step(score, step + 1);
    wgmma_wait<0>();
    release(fill_of_values(step));
    make_weights(score);
  }
  clear_behind(steps - 1);
  start_outputs(steps - 1);
  wgmma_wait<0>();

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + 8 * half;
    float sum = row_sum[half];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (row >= tokens * group) continue;
    const int token = first_token + row / group, head = kv_head * group + row % group;
    if (args.out_half) { // tiles of 64 columns (half_layout.h)
      if (head == 0 && t == 0) args.exponents[token] = 0;
      const int64_t tile_rows = (args.tokens + kPromptTokens - 1) / kPromptTokens * kPromptTokens;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) {
        const int piece = (head * width + 8 * j) / 8;
        if (!kRagged || 8 * j < width)
          *reinterpret_cast<uint32_t*>(args.out_half + (piece / 8 * tile_rows + token) * 64 +
                                       (piece % 8 ^ token % 8) * 8 + 2 * t) =
              pack_half2(out[4 * j + 2 * half] / sum, out[4 * j + 2 * half + 1] / sum);
      }
      continue;
    }
    float* to = args.out + (int64_t{token} * args.heads + head) * width + 2 * t;
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j)
      if (!kRagged || 8 * j < width)
        *reinterpret_cast<float2*>(to + 8 * j) = {out[4 * j + 2 * half] / sum, out[4 * j + 2 * half + 1] / sum};
  }
#endif
}

// Rounds of tiles on all multiprocessors, times their rows.
double attention_rounds(const Launch& launch, const AttentionArgs& args, int rows) {
  const int tile_tokens = rows / (args.heads / args.cache.heads);
  const int tiles = (args.tokens + tile_tokens - 1) / tile_tokens * args.cache.heads;
  return static_cast<double>((tiles + launch.sm_count - 1) / launch.sm_count) * rows;
}

template <int kDim, bool kRagged, int kConsumers>
void launch_with(const Launch& launch, AttentionArgs args) {
  using Shape = AttentionShape<kDim, kConsumers>;
  const bool varied = kRagged || args.visible.size > 0 || args.soft_cap > 0 || args.places;
  const auto kernel = varied ? prompt_attention_kernel<kDim, true, kRagged, kConsumers>
                             : prompt_attention_kernel<kDim, kRagged, kRagged, kConsumers>;
  allow_dynamic_shared_memory(kernel, Shape::kSharedBytes);
  args.tile_tokens = Shape::kRows / (args.heads / args.cache.heads);
  const int tiles = (args.tokens + args.tile_tokens - 1) / args.tile_tokens;
  const Cache& cache = args.cache;
  launch(kernel, dim3(cache.heads, tiles), Shape::kThreads, Shape::kSharedBytes, args,
         cache_maps(cache, cache.v, Shape::kKeys));
}

// Narrow heads leave registers for a third warpgroup, which encoders have rows for.
template <int kDim, bool kRagged>
void launch_for(const Launch& launch, const AttentionArgs& args) {
  constexpr double kThirdHelps = 0.8; // time of a row among 192, against one among 128
  if constexpr (kDim <= 80)
    if (!args.visible.causal && kThirdHelps * attention_rounds(launch, args, 192) < attention_rounds(launch, args, 128))
      return launch_with<kDim, kRagged, 3>(launch, args);
  launch_with<kDim, kRagged, 2>(launch, args);
}

} // namespace

bool can_attend_prompts(const Cache& cache, int heads) {
  const int dim = cache.k_dim, group = heads / cache.heads;
  if (!cache.k_half || !cache.v_half || dim != cache.v_dim) return false;
  if (dim == kWidePromptHead) return group <= kMaxWidePromptGroup;
  return ((dim <= 128 && dim % 8 == 0) || dim == 256) && group <= AttentionShape<128, 2>::kRows;
}

void launch_prompt_attention(const Launch& launch, AttentionArgs args) {
  const int width = args.cache.k_dim;
  if (width == kWidePromptHead) return launch_wide_prompt_attention(launch, args);
  if (width < 64) return launch_for<64, true>(launch, args);
  if (width == 64) return launch_for<64, false>(launch, args);
  if (width <= 80) return launch_for<80, true>(launch, args);
  if (width < 128) return launch_for<128, true>(launch, args);
  return width == 128 ? launch_for<128, false>(launch, args) : launch_for<256, false>(launch, args);
}

} // namespace ridge::kernels::cuda
