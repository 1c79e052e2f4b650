// Prefill attention by mma, after FlashAttention-2: for chips without wgmma and for caches of codes. A warp has whole
// rows. Shared memory holds one step, so that two blocks fit the 100 KB of a GeForce multiprocessor: one copies while
// the other multiplies.
#include "kernels/cuda/attention/cached_rows.cuh"
#include "kernels/cuda/products/scratch_sizes.h"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

constexpr int kRows = 128;
constexpr float kLog2e = 1.4426950408889634f;

template <int kDim>
struct MmaAttentionShape {
  static constexpr int kRowTiles = kDim > 128 ? 1 : 2, kWarps = kRows / (16 * kRowTiles), kThreads = kWarps * kWarp;
  static constexpr int kKeys = kDim > 80 ? 32 : 64;
  static constexpr int kPieces = kDim / 8;
  static constexpr int kPitch = kPieces % 8 == 0 ? kPieces : kPieces + 1;
  static constexpr int kQueryPieces = kRows * kPitch, kKeyPieces = kKeys * kPitch;
  static constexpr int kSharedBytes = (kQueryPieces + 2 * kKeyPieces) * 16;
  static constexpr int kBlocks = kDim > 128 ? 1 : 2; // of a multiprocessor
  // Swizzled: the eight rows of one ldmatrix hit different banks.
  static __device__ __forceinline__ int place(int row, int piece) {
    return row * kPitch + (kPitch == kPieces ? piece ^ row % 8 : piece);
  }
  // A base address; adds `rows` (a multiple of 8) and an even number of pieces.
  class LaneAddress {
   public:
    __device__ __forceinline__ LaneAddress(const uint4* from, int row, int piece)
        : address_(static_cast<uint32_t>(__cvta_generic_to_shared(from + place(row, piece)))) {}
    __device__ __forceinline__ uint32_t operator()(int rows, int pieces) const {
      return (kPitch == kPieces ? address_ ^ pieces * 16 : address_ + pieces * 16) + rows * kPitch * 16;
    }

   private:
    uint32_t address_; // unpadded rows are aligned to their size: XOR works
  };
};

// A thread's share of a step's copy: f16 asynchronously, codes through registers.
template <int kDim, bool kRagged, bool kCodes>
class StepCopy {
  using S = MmaAttentionShape<kDim>;
  using CachedRows = Rows<kDim, kCodes, kRagged>;
  static constexpr int kEach = S::kKeys * S::kPieces / S::kThreads;
  static_assert(S::kKeys * S::kPieces % S::kThreads == 0);

 public:
  // Zeros from `end` on.
  __device__ __forceinline__ void start(uint4* to, const CachedRows& rows, const RowsFrom& row_of, int first, int end) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = threadIdx.x + i * S::kThreads, key = at / S::kPieces, piece = at % S::kPieces;
      const bool real = first + key < end;
      const int64_t row = row_of(real ? first + key : end - 1);
      if constexpr (kCodes) {
        codes_[i] = real ? rows.load(row, 8 * piece) : uint2{};
        scales_[i] = real ? rows.scale(row, 8 * piece) : 0;
      } else {
        const bool copies = real && rows.width.has(8 * piece);
        copy_async_16_or_zeros(to + S::place(key, piece), rows.at(row, copies ? 8 * piece : 0), copies);
      }
    }
    copy_async_commit();
  }
  __device__ __forceinline__ void finish(uint4* to, const CachedRows& rows) const {
    if constexpr (kCodes) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int at = threadIdx.x + i * S::kThreads;
        to[S::place(at / S::kPieces, at % S::kPieces)] = rows.halves(codes_[i], scales_[i]);
      }
    } else {
      copy_async_wait<0>();
    }
  }

 private:
  uint2 codes_[kCodes ? kEach : 1];
  uint32_t scales_[kCodes ? kEach : 1];
};

// Rotates a row's outputs (core/host_device/kv_rotation.h): a lane has columns 8 j + 2 (lane % 4) and the next.
template <int kTiles>
__device__ __forceinline__ void rotate_outputs(float (&out)[kTiles][4], int half) {
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    float &a = out[j][2 * half], &b = out[j][2 * half + 1];
    const float sum = a + b, difference = a - b;
    a = sum * core::kRotationScale, b = difference * core::kRotationScale;
#pragma unroll
    for (int step = 1; step < 4; step *= 2) {
      const float other_a = __shfl_xor_sync(~0u, a, step), other_b = __shfl_xor_sync(~0u, b, step);
      a = threadIdx.x & step ? other_a - a : a + other_a;
      b = threadIdx.x & step ? other_b - b : b + other_b;
    }
  }
#pragma unroll
  for (int step = 1; step < 4; step *= 2)
#pragma unroll
    for (int j = 0; j + step < kTiles; ++j)
      if (j % (2 * step) < step)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          const float a = out[j][i], b = out[j + step][i];
          out[j][i] = a + b, out[j + step][i] = a - b;
        }
}

// kVaried: windows, soft caps and tokens that see later ones.
template <int kDim, bool kVaried, bool kRagged, bool kCodes>
__global__ void __launch_bounds__(MmaAttentionShape<kDim>::kThreads, MmaAttentionShape<kDim>::kBlocks)
    mma_attention_kernel(const __grid_constant__ AttentionArgs args) {
  using S = MmaAttentionShape<kDim>;
  constexpr int kRowTiles = S::kRowTiles, kKeys = S::kKeys;
  extern __shared__ __align__(1024) uint4 shared[];
  uint4 *const queries = shared, *const keys = queries + S::kQueryPieces, *const values = keys + S::kKeyPieces;
  const Cache& cache = args.cache;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, g = lane / 4, t = lane % 4;
  const int group = args.heads / cache.heads, kv_head = blockIdx.x;
  const int tile = static_cast<int>(gridDim.y - 1 - blockIdx.y); // the longest first
  const int first_token = tile * args.tile_tokens, tokens = min(args.tile_tokens, args.tokens - first_token);
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
  const int first_key = seen_first.first, length = seen_last.end;
  const int64_t head_row = (int64_t{args.streams[first_token]} * cache.heads + kv_head) * cache.rows;
  const HeadWidth<kDim, kRagged> head_width(width);
  const Rows<kDim, kCodes, kRagged> key_rows(cached_keys(cache), head_row, head_width),
      value_rows(cached_values(cache), head_row, head_width);
  const RowsFrom row_of(cache, first_key);
  StepCopy<kDim, kRagged, kCodes> next_keys, next_values;
  next_keys.start(keys, key_rows, row_of, first_key, length);
  // In log2 units, in the order of tokens, then heads.
  for (int i = threadIdx.x; i < kRows * S::kPieces; i += S::kThreads) {
    const int row = i / S::kPieces, piece = i % S::kPieces;
    float v[8] = {};
    if (row < tokens * group && (!kRagged || 8 * piece < width)) {
      const auto* q =
          reinterpret_cast<const float4*>(
              args.q + (int64_t{first_token + row / group} * args.heads + kv_head * group + row % group) * width) +
          2 * piece;
      put(v, q[0]), put(v + 4, q[1]);
#pragma unroll
      for (float& of : v) of *= args.scale * kLog2e;
    }
    if (kCodes && cache.rotates_k()) rotate_lanes(v);
    queries[S::place(row, piece)] = {pack_half2(v[0], v[1]), pack_half2(v[2], v[3]), pack_half2(v[4], v[5]),
                                     pack_half2(v[6], v[7])};
  }
  next_keys.finish(keys, key_rows);

  const int first_row = warp * 16 * kRowTiles;
  // ldmatrix: 16 rows of queries and values; 8 rows of keys and the next 8 columns.
  const typename S::LaneAddress query_at(queries, first_row + lane % 16, lane / 16),
      value_at(values, lane % 16, lane / 16), key_at(keys, lane / 16 * 8 + lane % 8, lane / 8 % 2);
  const auto row_of_lane = [&](int m, int half) { return min(first_row + 16 * m + 8 * half + g, tokens * group - 1); };
  int visible[kRowTiles][2], hidden[kVaried ? kRowTiles : 1][2] = {}; // a row sees keys [hidden, visible)
  float out[kRowTiles][kDim / 8][4] = {}, row_max[kRowTiles][2], row_sum[kRowTiles][2];
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row_of_lane(m, half);
      const Window::Span seen = seen_by(row / group);
      visible[m][half] = seen.end;
      if constexpr (kVaried) hidden[m][half] = seen.first;
      row_max[m][half] = args.sinks ? args.sinks[kv_head * group + row % group] * kLog2e : -INFINITY;
      row_sum[m][half] = args.sinks && t == 0; // in one of the row's four lanes
    }

  const int steps = (length - first_key + kKeys - 1) / kKeys;
  for (int step = 0; step < steps; ++step) {
    const int first = first_key + step * kKeys;
    __syncthreads(); // keys are there; the previous values are no longer read
    next_values.start(values, value_rows, row_of, first, length);
    float score[kRowTiles][kKeys / 8][4] = {};
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
      uint32_t q[kRowTiles][4];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) load_matrix_x4(q[m], query_at(16 * m, 2 * k));
#pragma unroll
      for (int n = 0; n < kKeys / 8; n += 2) {
        uint32_t b[4];
        load_matrix_x4(b, key_at(8 * n, 2 * k));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          mma_16x8x16(score[m][n], q[m], b[0], b[1]);
          mma_16x8x16(score[m][n + 1], q[m], b[2], b[3]);
        }
      }
    }
    if (kVaried && args.soft_cap > 0) {
      const float cap = args.soft_cap * kLog2e, by = 2 * kLog2e / cap;
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) {
          float& s = score[m][i / 4][i % 4];
          s = cap - 2 * cap * reciprocal(exp2_approx(s * by) + 1); // cap * tanh(s / cap)
        }
    }
    if (first + kKeys > seen_first.end || (kVaried && first < seen_last.first)) {
      asm volatile(""); // forces a branch, rarely taken
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) {
          const int key = first + 8 * (i / 4) + 2 * t + i % 2, half = i % 4 / 2;
          if (key >= visible[m][half] || (kVaried && key < hidden[m][half])) score[m][i / 4][i % 4] = -INFINITY;
        }
    }
    uint32_t weights[kRowTiles][kKeys / 16][4];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float most = row_max[m][half];
#pragma unroll
        for (int i = 0; i < kKeys / 4; ++i) most = fmaxf(most, score[m][i / 2][2 * half + i % 2]);
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        const float reference = most == -INFINITY ? 0 : most; // the row has seen no key yet
        const float rescale_factor = exp2_approx(row_max[m][half] - reference);
        row_max[m][half] = most;
        float sum = 0;
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j) {
          const float a = exp2_approx(score[m][j][2 * half] - reference),
                      b = exp2_approx(score[m][j][2 * half + 1] - reference);
          sum += a + b;
          weights[m][j / 2][j % 2 * 2 + half] = pack_half2(a, b);
        }
        row_sum[m][half] = row_sum[m][half] * rescale_factor + sum;
        if (__any_sync(~0u, rescale_factor != 1)) // rarely true after the first steps
#pragma unroll
          for (int j = 0; j < kDim / 8; ++j)
            out[m][j][2 * half] *= rescale_factor, out[m][j][2 * half + 1] *= rescale_factor;
      }
    next_values.finish(values, value_rows);
    __syncthreads(); // values are there; keys are no longer read
    if (step + 1 < steps) next_keys.start(keys, key_rows, row_of, first + kKeys, length);
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k)
#pragma unroll
      for (int j = 0; j < kDim / 8; j += 2) {
        uint32_t b[4];
        load_matrix_transposed_x4(b, value_at(16 * k, j));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          mma_16x8x16(out[m][j], weights[m][k], b[0], b[1]);
          mma_16x8x16(out[m][j + 1], weights[m][k], b[2], b[3]);
        }
      }
    if (step + 1 < steps) next_keys.finish(keys, key_rows);
  }

#pragma unroll
  for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (kCodes && cache.rotates_v()) rotate_outputs(out[m], half);
      float sum = row_sum[m][half];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      const int row = first_row + 16 * m + 8 * half + g;
      if (row >= tokens * group) continue;
      const int token = first_token + row / group, head = kv_head * group + row % group;
      float* to = args.out + (int64_t{token} * args.heads + head) * width + 2 * t;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j)
        if (!kRagged || 8 * j < width)
          *reinterpret_cast<float2*>(to + 8 * j) = {out[m][j][2 * half] / sum, out[m][j][2 * half + 1] / sum};
    }
}

template <int kDim, bool kRagged, bool kCodes>
void launch_for(const Launch& launch, AttentionArgs args) {
  using S = MmaAttentionShape<kDim>;
  const bool varied = kRagged || args.visible.size > 0 || args.soft_cap > 0 || args.places;
  const auto kernel =
      varied ? mma_attention_kernel<kDim, true, kRagged, kCodes> : mma_attention_kernel<kDim, kRagged, kRagged, kCodes>;
  allow_dynamic_shared_memory(kernel, S::kSharedBytes);
  args.tile_tokens = kRows / (args.heads / args.cache.heads);
  const int tiles = (args.tokens + args.tile_tokens - 1) / args.tile_tokens;
  launch(kernel, dim3(args.cache.heads, tiles), S::kThreads, S::kSharedBytes, args);
}

template <bool kCodes>
void launch_over(const Launch& launch, const AttentionArgs& args) {
  const int width = args.cache.k_dim;
  if (width < 64) return launch_for<64, true, kCodes>(launch, args);
  if (width == 64) return launch_for<64, false, kCodes>(launch, args);
  if (width <= 80 && !kCodes) return launch_for<80, true, false>(launch, args);
  if (width < 128) return launch_for<128, true, kCodes>(launch, args);
  if (width == 128) return launch_for<128, false, kCodes>(launch, args);
  launch_for<256, false, kCodes>(launch, args);
}

} // namespace

bool can_attend_by_mma(const Cache& cache, int heads, const ChipLimits& chip) {
  const int dim = cache.k_dim;
  const bool codes = cache.k_codes() && cache.v_codes();
  if (!codes && !(cache.k_half && cache.v_half)) return false;
  if (dim != cache.v_dim || dim % (codes ? 32 : 8) != 0 || (dim > 128 && dim != 256)) return false;
  const int shared = dim <= 128 ? MmaAttentionShape<128>::kSharedBytes : MmaAttentionShape<256>::kSharedBytes;
  return shared <= chip.shared_per_block && heads / cache.heads <= kRows;
}

void launch_mma_attention(const Launch& launch, const AttentionArgs& args) {
  args.cache.k_codes() ? launch_over<true>(launch, args) : launch_over<false>(launch, args);
}

} // namespace ridge::kernels::cuda
