// Attention for prompts on Hopper: 128 rows (query heads that share a KV head, times consecutive tokens) against
// 128 keys at a time. One warpgroup brings keys and values into shared memory, swizzled as wgmma reads them; two
// multiply, 64 rows each: scores = Q Kᵀ from shared memory, then the exponentials, in registers, times V.
//
// Heads of 256 have 128 registers of outputs, so they take 64 keys at a time. Shared memory has room for two steps of
// them. Keys and values therefore have slots of their own: a slot of keys is free as soon as its scores are there, one
// step before the values.
//
// Windows, soft caps and tokens that see later ones are a kernel of their own (kVaried): its steps begin with the first
// key that the tile's first token sees, and rows mask at both ends. What tokens see begins and ends no earlier than
// what the tokens before them see. A sink is what a row's maximum and sum begin with.
//
// Heads of other widths up to 128 go through kVaried kernels of 64, 80 and 128 (kRagged): their rows are narrower in
// memory, and zeros from there on in shared memory.
#include "kernels/cuda/attention/cached_rows.cuh"
#include "kernels/cuda/gemm/hopper.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

constexpr int kConsumers = 2, kRows = 64 * kConsumers;
constexpr int kAttentionThreads = (kConsumers + 1) * 128;

template <int kDim>
struct AttentionShape {
  static constexpr bool kWide = kDim > 128;
  static constexpr int kKeys = kWide ? 64 : 128; // of a step
  // Of shared memory. A slot has the keys and the values of a step, of wide heads one of the two.
  static constexpr int kSlots = kWide ? 4 : 3, kSlotsPerStep = kWide ? 2 : 1;
  static constexpr int kStored = (kDim + 63) / 64 * 64; // columns, in tiles of 64
  static constexpr int kQueryBytes = kRows * kStored * 2, kKeyBytes = kKeys * kStored * 2;
  static constexpr int kSlotBytes = kWide ? kKeyBytes : 2 * kKeyBytes, kValuesAt = kWide ? 0 : kKeyBytes;
  static constexpr int kSharedBytes = kQueryBytes + kSlots * kSlotBytes + 1024;
};

#ifdef RIDGE_HAS_WGMMA

constexpr float kLog2e = 1.4426950408889634f;

__device__ __forceinline__ float fast_exp2(float x) { // 2^-126 and less is 0
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Where 16-byte piece `piece` of row `row` lies in a matrix of `rows` rows, tiles of 64 columns one after the other.
__device__ __forceinline__ int swizzled(int row, int piece, int rows) {
  return (piece / 8 * rows + row) * 128 + ((piece % 8) ^ (row % 8)) * 16;
}

#endif

template <int kDim, bool kVaried, bool kRagged>
__global__ void __launch_bounds__(kAttentionThreads, 1)
    prompt_attention_kernel(const __grid_constant__ AttentionArgs args) {
#ifdef RIDGE_HAS_WGMMA
  using Shape = AttentionShape<kDim>;
  constexpr int kKeys = Shape::kKeys, kSlots = Shape::kSlots;
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
    for (int s = 0; s < kSlots; ++s) full[s].init(128), empty[s].init(kConsumers * 4);
    fence_barrier_init();
  }
  let_successor_start();
  wait_for_predecessor();
  const int width = kRagged ? cache.k_dim : kDim;
  const int first_position = args.positions[first_token];
  const auto seen_by = [&](int token) { // of the tile
    const int position = first_position + token;
    if (kVaried && args.places) return args.visible.seen_from(position, args.places[first_token + token]);
    return Window::Span{kVaried ? args.visible.first_seen(position) : 0, position + 1};
  };
  const Window::Span seen_first = seen_by(0), seen_last = seen_by(tokens - 1);
  const int first_key = seen_first.first, length = seen_last.end; // of the first step; of all
  const int steps = (length - first_key + kKeys - 1) / kKeys;
  __syncthreads();

  if (warpgroup == 0) {
    give_registers<56>();
    const int64_t head_at = (args.streams[first_token] * cache.heads + kv_head) * cache.rows;
    const RowsFrom row_of(cache, first_key);
    const int pieces = width / 8; // of 16 bytes, of a row
    const auto* keys = static_cast<const uint4*>(cache.k) + head_at * pieces;
    const auto* values = static_cast<const uint4*>(cache.v) + head_at * pieces;
    const auto publish = [&](int fill) {
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); // what cp.async wrote, wgmma reads
      full[fill % kSlots].arrive();
    };
    const int fills = steps * Shape::kSlotsPerStep;
    for (int fill = 0; fill < fills; ++fill) {
      const int slot = fill % kSlots, step = fill / Shape::kSlotsPerStep;
      if (!Shape::kWide && fill > 0) {
        copy_async_wait<0>();
        publish(fill - 1);
      }
      empty[slot].wait(fill / kSlots % 2 ^ 1);
      uint8_t* to = slots + slot * Shape::kSlotBytes;
      const uint4* of_slot = fill % 2 ? values : keys; // where it has one of the two
#pragma unroll
      for (int i = 0; i < kKeys * kDim / 8 / 128; ++i) {
        const int at = i * 128 + thread, row = at / (kDim / 8), piece = at % (kDim / 8);
        const int key = min(first_key + step * kKeys + row, length - 1);
        const int64_t from = int64_t{kVaried ? row_of(key) : key} * pieces + piece;
        uint8_t* to_piece = to + swizzled(row, piece, kKeys);
        if (kRagged && piece >= pieces) {
          *reinterpret_cast<uint4*>(to_piece) = *reinterpret_cast<uint4*>(to_piece + Shape::kValuesAt) = uint4{};
          continue;
        }
        copy_async_16(to_piece, (Shape::kWide ? of_slot : keys) + from);
        if constexpr (!Shape::kWide) copy_async_16(to_piece + Shape::kValuesAt, values + from);
      }
      copy_async_commit();
      if (Shape::kWide && fill > 0) { // while the next slot is under way
        copy_async_wait<1>();
        publish(fill - 1);
      }
    }
    copy_async_wait<0>();
    publish(fills - 1);
    return;
  }

  take_registers<224>();
  const int consumer = warpgroup - 1, g = lane / 4, t = lane % 4;
  // The queries, in log2 units: row r is head r % group of token r / group. Each warpgroup brings its own 64.
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
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("bar.sync %0, 128;" ::"r"(warpgroup) : "memory");

  const int first_row = consumer * 64 + thread / kWarp * 16 + g; // this lane's rows: first_row and + 8
  int visible[2], hidden[2] = {0, 0};                            // keys from hidden on, before visible
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
      if (t == 0) row_sum[half] = 1; // the four lanes of a row add up their sums
    }
#pragma unroll
  for (float& v : out) v = 0;
  // Which filling of a slot has a step's keys, which one its values.
  const auto fill_of_keys = [](int step) { return step * Shape::kSlotsPerStep; };
  const auto fill_of_values = [](int step) { return step * Shape::kSlotsPerStep + Shape::kSlotsPerStep - 1; };
  const auto release = [&](int fill) {
    if (lane == 0) empty[fill % kSlots].arrive();
  };
  const auto start_scores = [&](float(&score)[kKeys / 2], int step) {
    const int fill = fill_of_keys(step);
    const uint8_t* keys = slots + fill % kSlots * Shape::kSlotBytes;
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
  // The scores' exponentials, as the left operand of the next product.
  uint32_t weights[kKeys / 16][4];
  const auto make_weights = [&](const float(&score)[kKeys / 2], int step) {
    const int first = first_key + step * kKeys, base = first + 2 * t;
    const bool masks = first + kKeys > seen_first.end || (kVaried && first < seen_last.first);
    const float cap = kVaried ? args.soft_cap * kLog2e : 0, by = 2 * kLog2e / cap;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float s[kKeys / 4], largest = row_max[half];
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int key = base + 8 * j + i;
          float x = score[4 * j + 2 * half + i];
          if (kVaried && cap > 0) x = cap - 2 * cap * reciprocal(fast_exp2(x * by) + 1); // cap * tanh(x / cap)
          s[2 * j + i] = masks && (key >= visible[half] || (kVaried && key < hidden[half])) ? -INFINITY : x;
          largest = fmaxf(largest, s[2 * j + i]);
        }
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
      // Every row sees key 0, so that `largest` is finite; with a window it may see nothing of the first steps.
      const float reference = kVaried && largest == -INFINITY ? 0 : largest;
      const float shrink = fast_exp2(row_max[half] - reference);
      row_max[half] = largest;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j) {
        const float a = fast_exp2(s[2 * j] - reference), b = fast_exp2(s[2 * j + 1] - reference);
        sum += a + b;
        weights[j / 2][j % 2 * 2 + half] = pack_half2(a, b);
      }
      row_sum[half] = row_sum[half] * shrink + sum;
      if (Shape::kWide && !__any_sync(~0u, shrink != 1)) continue; // seldom anything new behind the first steps
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) {
        out[4 * j + 2 * half] *= shrink;
        out[4 * j + 2 * half + 1] *= shrink;
      }
    }
  };
  const auto start_outputs = [&](int step) {
    const int fill = fill_of_values(step);
    const uint8_t* values = slots + fill % kSlots * Shape::kSlotBytes + Shape::kValuesAt;
    if constexpr (Shape::kWide) full[fill % kSlots].wait(fill / kSlots % 2);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k)
      wgmma_transposed(out, weights[k], transposed_tile_descriptor(values + k * 16 * 128, kKeys * 128));
    wgmma_commit();
  };
  // A step's scores are started right behind the outputs of the step before, so that the tensor cores go on while this
  // warpgroup waits.
  {
    float score[kKeys / 2];
    start_scores(score, 0);
    wgmma_wait<0>();
    if constexpr (Shape::kWide) release(fill_of_keys(0));
    make_weights(score, 0);
  }
  for (int step = 0; step + 1 < steps; ++step) {
    float score[kKeys / 2];
    start_outputs(step);
    start_scores(score, step + 1);
    wgmma_wait<1>();
    release(fill_of_values(step));
    wgmma_wait<0>();
    if constexpr (Shape::kWide) release(fill_of_keys(step + 1));
    make_weights(score, step + 1);
  }
  start_outputs(steps - 1);
  wgmma_wait<0>();

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + 8 * half;
    float sum = row_sum[half];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (row >= tokens * group) continue;
    float* to =
        args.out + (int64_t{first_token + row / group} * args.heads + kv_head * group + row % group) * width + 2 * t;
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j)
      if (!kRagged || 8 * j < width)
        *reinterpret_cast<float2*>(to + 8 * j) = {out[4 * j + 2 * half] / sum, out[4 * j + 2 * half + 1] / sum};
  }
#endif
}

template <int kDim, bool kRagged>
void launch_for(const Launch& launch, AttentionArgs args) {
  constexpr int kShared = AttentionShape<kDim>::kSharedBytes;
  const bool varied = kRagged || args.visible.size > 0 || args.soft_cap > 0 || args.places;
  const auto kernel =
      varied ? prompt_attention_kernel<kDim, true, kRagged> : prompt_attention_kernel<kDim, kRagged, kRagged>;
  allow_shared(kernel, kShared);
  args.tile_tokens = kRows / (args.heads / args.cache.heads);
  const int tiles = (args.tokens + args.tile_tokens - 1) / args.tile_tokens;
  launch(kernel, dim3(args.cache.heads, tiles), kAttentionThreads, kShared, args);
}

} // namespace

bool can_attend_prompts(const Cache& cache, int heads) {
  const int dim = cache.k_dim;
  return cache.k_half && cache.v_half && dim == cache.v_dim && ((dim <= 128 && dim % 8 == 0) || dim == 256) &&
         heads / cache.heads <= kRows;
}

void launch_prompt_attention(const Launch& launch, AttentionArgs args) {
  const int width = args.cache.k_dim;
  if (width < 64) return launch_for<64, true>(launch, args);
  if (width == 64) return launch_for<64, false>(launch, args);
  if (width <= 80) return launch_for<80, true>(launch, args);
  if (width < 128) return launch_for<128, true>(launch, args);
  return width == 128 ? launch_for<128, false>(launch, args) : launch_for<256, false>(launch, args);
}

} // namespace ridge::kernels::cuda
