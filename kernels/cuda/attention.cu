// Causal attention over the cache, for one new token or a prompt's worth.
//
// A tile is 16 rows that read the same keys: the query heads that share a KV head (GQA), times as many consecutive
// tokens as fit. Scores and outputs are tensor-core products of [16 x dim] by 16 keys, straight from the cache into
// registers: a lane reads 16 consecutive bytes of a key or value, and the summation order inside a product, which is
// free, is chosen to suit. Four warps share a block's keys and `splits` blocks a tile's context, each with its own
// running maximum and sum; the last block to finish (an atomic ticket) combines them.
//
// A q8_0 cache is the same with eight codes for eight halves, made into f16 in registers.
//
// Where no token of the batch attends to another one's key, as in decoding, the kernel also does what lies between the
// matrices and attention: each block norms and turns its query heads, and the warp that comes to the end of the context
// the new key, which it stores with the value. That saves a kernel per layer, and all that does not depend on the
// matrices (positions, angles, the first cached keys) is at hand before these are done.
//
// What this kernel does not take (other head sizes, f32 caches) goes to plain_attention.cu.
#include "kernels/cuda/heads.cuh"

#include <algorithm>
#include <type_traits>

namespace ridge::kernels::cuda {
namespace {

constexpr int kWarps = 4, kKeysPerStep = 16, kRows = kAttentionRows;
constexpr float kLog2e = 1.4426950408889634f;

// Per tile, KV head and split: running maximum and sum of 16 rows, then their outputs [16][v_dim].
constexpr int64_t part_floats(int v_dim) { return 2 * kRows + int64_t{kRows} * v_dim; }

// One head's cached keys or values, [context][kDim], read eight elements at a time, as f16 or as codes with a scale.
template <int kDim, bool kCodes>
struct Rows;

template <int kDim>
struct Rows<kDim, false> {
  const __half* data;
  using Piece = uint4;
  struct Scales { // there are none
    __device__ uint16_t operator[](int) const { return 0; }
  };
  __device__ Rows(const void* cached, const uint16_t*, int64_t first) {
    data = static_cast<const __half*>(cached) + first * kDim;
  }
  __device__ Piece load(int64_t row, int column) const {
    return *reinterpret_cast<const uint4*>(data + row * kDim + column);
  }
  __device__ Scales scales(int64_t) const { return {}; }
  __device__ uint16_t scale(int64_t, int) const { return 0; }
  static __device__ uint4 halves(Piece piece, uint16_t) { return piece; }
};

template <int kDim>
struct Rows<kDim, true> {
  const int8_t* data;
  const uint16_t* all_scales;
  using Piece = uint2;
  struct alignas(kDim / 16) Scales {
    uint16_t of[kDim / 32];
    __device__ uint16_t operator[](int block) const { return of[block]; }
  };
  __device__ Rows(const void* cached, const uint16_t* scales, int64_t first) {
    data = static_cast<const int8_t*>(cached) + first * kDim;
    all_scales = scales + first * (kDim / 32);
  }
  __device__ Piece load(int64_t row, int column) const {
    return *reinterpret_cast<const uint2*>(data + row * kDim + column);
  }
  __device__ Scales scales(int64_t row) const {
    return *reinterpret_cast<const Scales*>(all_scales + row * (kDim / 32));
  }
  __device__ uint16_t scale(int64_t row, int column) const { return all_scales[row * (kDim / 32) + column / 32]; }
  // With 0x64 above it, a byte b is the f16 1024 + b.
  static __device__ uint4 halves(Piece piece, uint16_t scale) {
    const __half2 factor = __half2half2(__ushort_as_half(scale));
    const __half2 offset = __half2half2(__ushort_as_half(0x6480)); // 1024 + 128
    const auto pair = [&](uint32_t bytes, uint32_t select) {
      const uint32_t raw = __byte_perm(bytes ^ 0x80808080, 0x64646464, select);
      const __half2 value = __hmul2(__hsub2(*reinterpret_cast<const __half2*>(&raw), offset), factor);
      return *reinterpret_cast<const uint32_t*>(&value);
    };
    return {pair(piece.x, 0x4140), pair(piece.x, 0x4342), pair(piece.y, 0x4140), pair(piece.y, 0x4342)};
  }
};

// One head's elements lane, lane + 32, … of a warp.
template <int kDim>
struct HeadPart {
  float v[kDim / kWarp];

  __device__ __forceinline__ explicit HeadPart(const float* from) {
#pragma unroll
    for (int k = 0; k < kDim / kWarp; ++k) v[k] = from[threadIdx.x % kWarp + k * kWarp];
  }
  __device__ __forceinline__ void put(float* to) const {
#pragma unroll
    for (int k = 0; k < kDim / kWarp; ++k) to[threadIdx.x % kWarp + k * kWarp] = v[k];
    __syncwarp();
  }
  __device__ __forceinline__ void norm(const float* weight, float epsilon) {
    if (!weight) return;
    float squares = 0;
    for (const float x : v) squares += x * x;
    const float inverse = rsqrtf(warp_sum(squares) / kDim + epsilon);
#pragma unroll
    for (int k = 0; k < kDim / kWarp; ++k) v[k] = v[k] * inverse * weight[threadIdx.x % kWarp + k * kWarp];
  }
};

__device__ __forceinline__ void turn(float& a, float& b, float2 angle) {
  const float x = a, y = b;
  a = x * angle.x - y * angle.y;
  b = x * angle.y + y * angle.x;
}

// Elements 32 c + 8 t + j of a head, [c][j] by lane t of four, turned.
template <int kDim>
__device__ __forceinline__ void turn_quarter(float (&v)[kDim / 32][8], int t, const RopeArgs& rope,
                                             const float2* angles) {
  if (rope.split) { // pairs (i, i + kDim / 2)
#pragma unroll
    for (int c = 0; c < kDim / 64; ++c)
#pragma unroll
      for (int j = 0; j < 8; ++j) turn(v[c][j], v[c + kDim / 64][j], angles[32 * c + 8 * t + j]);
    return;
  }
#pragma unroll
  for (int c = 0; c < kDim / 32; ++c)
#pragma unroll
    for (int j = 0; j < 8; j += 2)
      if (const int pair = (32 * c + 8 * t + j) / 2; pair < rope.pairs) turn(v[c][j], v[c][j + 1], angles[pair]);
}

// Dims: of a head, k_dim = v_dim, 64 or 128. kTurn: q, k and v come as their matrices gave them, by `heads`; a tile is
// one token.
template <int kDim, bool kKeyCodes, bool kValueCodes, bool kTurn>
__global__ void __launch_bounds__(kWarps* kWarp)
    attention_kernel(const __grid_constant__ AttentionArgs args, const __grid_constant__ RopeStoreArgs heads) {
  constexpr int kChunks = kDim / 32; // of 32 dims: two products deep
  constexpr int kColumns = kDim / 8; // output columns per lane group: 8 neighbouring lanes' share
  const Cache& cache = args.cache;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, g = lane / 4, t = lane % 4;
  const int split = blockIdx.x, kv_head = blockIdx.y, tile = blockIdx.z;
  const int group = args.heads / cache.heads;
  const int first_token = tile * args.tile_tokens;
  const int tokens = min(args.tile_tokens, args.tokens - first_token), rows = tokens * group;
  __shared__ float warp_largest[kWarps][kRows], warp_total[kWarps][kRows];
  // Column tile after column tile; padded for the banks.
  __shared__ __align__(16) float warp_out[kWarps][kRows][kDim + 8];
  struct Newest { // what kTurn adds: the angles, and the key and value of this token, also as the cache has them
    float2 angles[kDim / 2];
    float key[kDim], value[kDim];
    __align__(16) uint8_t cached_key[2 * kDim], cached_value[2 * kDim];
    __align__(16) uint16_t key_scales[kDim / 32], value_scales[kDim / 32];
  };
  __shared__ std::conditional_t<kTurn, Newest, char> newest;
  let_successor_start();
  stamp(args.stamps, 0);
  if constexpr (!kTurn) wait_for_predecessor();

  const int64_t stream = args.streams[first_token];
  const int64_t head_at = (stream * cache.heads + kv_head) * cache.context;
  const Rows<kDim, kKeyCodes> keys(cache.k, cache.k_scales, head_at);
  const Rows<kDim, kValueCodes> values(cache.v, cache.v_scales, head_at);
  const int length = args.positions[first_token + tokens - 1] + 1;
  const int per_split = ((length + args.splits - 1) / args.splits + 63) / 64 * 64;
  const int used_splits = (length + per_split - 1) / per_split;
  if (split >= used_splits) return;
  const int begin = split * per_split, end = min(length, begin + per_split);
  const auto write_out = [&](int row, int column, float value) {
    const int token = first_token + row / group, head = kv_head * group + row % group;
    args.out[(int64_t{token} * args.heads + head) * kDim + column] = value;
  };

  // Keys base + 8 i + g, values of the keys base + 8 i + 2 t + k; past the end the last ones again, masked below.
  struct Step {
    typename Rows<kDim, kKeyCodes>::Piece key[2][kChunks];
    typename Rows<kDim, kKeyCodes>::Scales key_scales[2];
    typename Rows<kDim, kValueCodes>::Piece value[4][kColumns / 8];
    uint16_t value_scale[4]; // a lane's columns lie in one block of 32
  };
  const auto fetch_key = [&](Step& step, int i, const auto& from, int row) {
    step.key_scales[i] = from.scales(row);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) step.key[i][c] = from.load(row, 8 * t + 32 * c);
  };
  const auto fetch_value = [&](Step& step, int i, const auto& from, int row) {
    step.value_scale[i] = from.scale(row, kColumns * g);
#pragma unroll
    for (int c = 0; c < kColumns / 8; ++c) step.value[i][c] = from.load(row, kColumns * g + 8 * c);
  };
  const auto key_row = [&](int base, int i) { return base + 8 * i + g; };
  const auto value_row = [&](int base, int i) { return base + 8 * (i / 2) + 2 * t + i % 2; };
  const int stored = kTurn ? max(length - 2, 0) : length - 1; // the last row that is in the cache from the beginning
  const auto fetch = [&](int base) {
    Step step;
#pragma unroll
    for (int i = 0; i < 2; ++i) fetch_key(step, i, keys, min(key_row(base, i), stored));
#pragma unroll
    for (int i = 0; i < 4; ++i) fetch_value(step, i, values, min(value_row(base, i), stored));
    return step;
  };
  // One step is fetched while the one before it is computed: eight warps to a multiprocessor hide no latency otherwise.
  Step ahead;
  if (begin + warp * kKeysPerStep < end) ahead = fetch(begin + warp * kKeysPerStep);

  const auto add_newest = [&](Step& step, int base) {
    if constexpr (kTurn) {
      const Rows<kDim, kKeyCodes> key(newest.cached_key, newest.key_scales, 0);
      const Rows<kDim, kValueCodes> value(newest.cached_value, newest.value_scales, 0);
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (key_row(base, i) >= length - 1) fetch_key(step, i, key, 0);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (value_row(base, i) >= length - 1) fetch_value(step, i, value, 0);
    }
  };
  if constexpr (kTurn) {
    for (int pair = threadIdx.x; pair < heads.rope.pairs; pair += kWarps * kWarp)
      newest.angles[pair] = turn_of(heads.rope, pair, length - 1);
    __syncthreads();
    wait_for_predecessor();
    stamp(args.stamps, 1);
  }

  // Queries of rows g and g + 8: this lane's dims 32 c + 8 t … + 7.
  float raw[2][kChunks][8] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half)
    if (const int row = g + 8 * half; row < rows) {
      const int token = first_token + row / group, head = kv_head * group + row % group;
      const float* q = (kTurn ? heads.q_in : args.q) + (int64_t{token} * args.heads + head) * kDim + 8 * t;
#pragma unroll
      for (int c = 0; c < kChunks; ++c)
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
          const float4 four = *reinterpret_cast<const float4*>(q + 32 * c + j);
          raw[half][c][j] = four.x, raw[half][c][j + 1] = four.y;
          raw[half][c][j + 2] = four.z, raw[half][c][j + 3] = four.w;
        }
    }

  if constexpr (kTurn) {
    if (end == length && (length - 1 - begin) / kKeysPerStep % kWarps == warp) {
      const int64_t from = (int64_t{first_token} * cache.heads + kv_head) * kDim, at = (head_at + length - 1) * kDim;
      HeadPart<kDim> key(heads.k_in + from);
      const HeadPart<kDim> value(heads.v_in + from);
      key.norm(heads.k_norm, heads.epsilon);
      key.put(newest.key);
      value.put(newest.value);
      const RopeArgs& rope = heads.rope;
      for (int pair = lane; pair < rope.pairs; pair += kWarp) {
        const int first = rope.split ? pair : 2 * pair, second = rope.split ? pair + rope.pairs : 2 * pair + 1;
        turn(newest.key[first], newest.key[second], newest.angles[pair]);
      }
      __syncwarp();
      store_head(newest.key, kDim, 0, newest.cached_key, true, kKeyCodes ? newest.key_scales : nullptr, 0, 1);
      store_head(newest.value, kDim, 0, newest.cached_value, true, kValueCodes ? newest.value_scales : nullptr, 0, 1);
      store_head(newest.key, kDim, at, cache.k, true, cache.k_scales, 0, 1);
      store_head(newest.value, kDim, at, cache.v, true, cache.v_scales, 0, 1);
      __syncwarp();
    }
  }

  uint32_t query[kChunks][2][4]; // in log2 units
  int visible[2];                // keys that a row sees
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = g + 8 * half;
    visible[half] = row >= rows ? 0 : kTurn ? length : args.positions[first_token + row / group] + 1;
    float(&v)[kChunks][8] = raw[half];
    if constexpr (kTurn) {
      if (heads.q_norm) {
        float squares = 0;
        for (const auto& chunk : v)
          for (const float x : chunk) squares += x * x;
        squares += __shfl_xor_sync(~0u, squares, 1);
        squares += __shfl_xor_sync(~0u, squares, 2);
        const float inverse = rsqrtf(squares / kDim + heads.epsilon);
#pragma unroll
        for (int c = 0; c < kChunks; ++c)
#pragma unroll
          for (int j = 0; j < 8; ++j) v[c][j] = v[c][j] * inverse * heads.q_norm[32 * c + 8 * t + j];
      }
      turn_quarter<kDim>(v, t, heads.rope, newest.angles);
    }
    const float scale = args.scale * kLog2e;
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        query[c][k][half] = pack_half2(v[c][4 * k] * scale, v[c][4 * k + 1] * scale);
        query[c][k][2 + half] = pack_half2(v[c][4 * k + 2] * scale, v[c][4 * k + 3] * scale);
      }
  }

  float out[kColumns][4]; // column tile j: rows g, g+8; columns 2t and 2t+1 of it are output columns n · kColumns + j
#pragma unroll
  for (int j = 0; j < kColumns; ++j)
    for (int i = 0; i < 4; ++i) out[j][i] = 0;
  float row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0, 0};

  for (int base = begin + warp * kKeysPerStep; base < end; base += kWarps * kKeysPerStep) {
    Step now = ahead;
    if (base + kWarps * kKeysPerStep < end) ahead = fetch(base + kWarps * kKeysPerStep);
    if (kTurn && base + kKeysPerStep >= length) add_newest(now, base);
    float score[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      for (float& s : score[i]) s = 0;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const uint4 k = keys.halves(now.key[i][c], now.key_scales[i][c]);
        mma_16x8x16(score[i], query[c][0], k.x, k.y);
        mma_16x8x16(score[i], query[c][1], k.z, k.w);
      }
    }
    uint32_t weight[4]; // the scores' exponentials, as the left operand of the next product
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = row_max[half];
#pragma unroll
      for (int i = 0; i < 2; ++i)
        for (int k = 0; k < 2; ++k) {
          float& s = score[i][2 * half + k];
          if (base + 8 * i + 2 * t + k >= visible[half] || base + 8 * i + 2 * t + k >= end) s = -INFINITY;
          largest = fmaxf(largest, s);
        }
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
      const float reference = largest == -INFINITY ? 0 : largest;
      const float shrink = exp2f(row_max[half] - reference);
      row_max[half] = largest;
      float sum = 0;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float p0 = exp2f(score[i][2 * half] - reference), p1 = exp2f(score[i][2 * half + 1] - reference);
        sum += p0 + p1;
        weight[2 * i + half] = pack_half2(p0, p1);
      }
      row_sum[half] = row_sum[half] * shrink + sum;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        out[j][2 * half] *= shrink;
        out[j][2 * half + 1] *= shrink;
      }
    }
#pragma unroll
    for (int c = 0; c < kColumns / 8; ++c) {
      uint32_t v[4][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint4 piece = values.halves(now.value[i][c], now.value_scale[i]);
        v[i][0] = piece.x, v[i][1] = piece.y, v[i][2] = piece.z, v[i][3] = piece.w;
      }
#pragma unroll
      for (int w = 0; w < 4; ++w) { // two columns of each key -> two keys of each column
        mma_16x8x16(out[8 * c + 2 * w], weight, __byte_perm(v[0][w], v[1][w], 0x5410),
                    __byte_perm(v[2][w], v[3][w], 0x5410));
        mma_16x8x16(out[8 * c + 2 * w + 1], weight, __byte_perm(v[0][w], v[1][w], 0x7632),
                    __byte_perm(v[2][w], v[3][w], 0x7632));
      }
    }
  }

  stamp(args.stamps, 2);
  // Merge the warps: each leaves its maxima, sums and outputs in shared memory.
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = g + 8 * half;
    row_sum[half] += __shfl_xor_sync(~0u, row_sum[half], 1);
    row_sum[half] += __shfl_xor_sync(~0u, row_sum[half], 2);
    if (t == 0) {
      warp_largest[warp][row] = row_max[half];
      warp_total[warp][row] = row_sum[half];
    }
    if (row < rows)
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
        *reinterpret_cast<float2*>(&warp_out[warp][row][8 * j + 2 * t]) = {out[j][2 * half], out[j][2 * half + 1]};
  }
  __syncthreads();
  float* parts = args.partial + (int64_t{tile} * cache.heads + kv_head) * args.splits * part_floats(kDim);
  float* part = parts + split * part_floats(kDim);
  for (int i = threadIdx.x; i < rows * kDim; i += kWarps * kWarp) {
    const int row = i / kDim, column = i % kDim, at = column % kColumns * 8 + column / kColumns;
    float largest = -INFINITY, sum = 0, value = 0;
    for (int w = 0; w < kWarps; ++w) largest = fmaxf(largest, warp_largest[w][row]);
    const float reference = largest == -INFINITY ? 0 : largest;
    for (int w = 0; w < kWarps; ++w) {
      const float shrink = exp2f(warp_largest[w][row] - reference);
      sum += warp_total[w][row] * shrink;
      value += warp_out[w][row][at] * shrink;
    }
    if (used_splits == 1) {
      write_out(row, column, value / sum);
      continue;
    }
    part[2 * kRows + i] = value;
    if (column == 0) {
      part[row] = largest;
      part[kRows + row] = sum;
    }
  }
  stamp_latest(args.stamps, 3);
  if (used_splits == 1) return;

  // The last block of the tile to come here combines the splits.
  __threadfence();
  __syncthreads();
  __shared__ bool last;
  unsigned* ticket = &args.tickets[tile * cache.heads + kv_head];
  if (threadIdx.x == 0) last = atomicAdd(ticket, 1) == static_cast<unsigned>(used_splits - 1);
  __syncthreads();
  if (!last) return;
  if (threadIdx.x == 0) *ticket = 0;
  __threadfence();
  // What each split's outputs count: first for all rows, so that a thread can then have many of them under way.
  static_assert(kMaxAttentionSplits <= 2 * kWarp && kMaxAttentionSplits * kRows <= sizeof(warp_out) / sizeof(float));
  auto* share = reinterpret_cast<float(*)[kRows]>(&warp_out[0][0][0]); // [splits][16]
  for (int row = warp; row < rows; row += kWarps) {
    float largest[2], sum[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int s = lane + k * kWarp;
      largest[k] = s < used_splits ? __ldcg(parts + s * part_floats(kDim) + row) : -INFINITY;
      sum[k] = s < used_splits ? __ldcg(parts + s * part_floats(kDim) + kRows + row) : 0;
    }
    const float reference = warp_reduce(fmaxf(largest[0], largest[1]), [](float a, float b) { return fmaxf(a, b); });
    float total = 0;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      largest[k] = exp2f(largest[k] - reference);
      total += largest[k] * sum[k];
    }
    total = warp_sum(total);
#pragma unroll
    for (int k = 0; k < 2; ++k)
      if (const int s = lane + k * kWarp; s < used_splits) share[s][row] = largest[k] / total;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < rows * (kDim / 4); i += kWarps * kWarp) {
    const int row = i / (kDim / 4);
    const auto* from = reinterpret_cast<const float4*>(parts + 2 * kRows) + i;
    float4 value = {0, 0, 0, 0};
#pragma unroll 16
    for (int s = 0; s < used_splits; ++s) {
      const float4 v = __ldcg(from + s * (part_floats(kDim) / 4));
      const float w = share[s][row];
      value.x += v.x * w, value.y += v.y * w, value.z += v.z * w, value.w += v.w * w;
    }
    const int token = first_token + row / group, head = kv_head * group + row % group;
    reinterpret_cast<float4*>(args.out + (int64_t{token} * args.heads + head) * kDim)[i % (kDim / 4)] = value;
  }
  stamp_latest(args.stamps, 3);
}

template <int kDim, bool kTurn>
auto fast_kernel(const Cache& cache) {
  if (cache.k_scales)
    return cache.v_scales ? attention_kernel<kDim, true, true, kTurn> : attention_kernel<kDim, true, false, kTurn>;
  return cache.v_scales ? attention_kernel<kDim, false, true, kTurn> : attention_kernel<kDim, false, false, kTurn>;
}
template <bool kTurn>
void launch_fast(const Launch& launch, const AttentionArgs& args, const RopeStoreArgs& heads) {
  const int tiles = (args.tokens + args.tile_tokens - 1) / args.tile_tokens;
  const auto kernel = args.cache.k_dim == 64 ? fast_kernel<64, kTurn>(args.cache) : fast_kernel<128, kTurn>(args.cache);
  launch(kernel, dim3(args.splits, args.cache.heads, tiles), kWarps * kWarp, 0, args, heads);
}

} // namespace

bool fast_attention(const Cache& cache) {
  return (cache.k_half || cache.k_scales) && (cache.v_half || cache.v_scales) && cache.k_dim == cache.v_dim &&
         (cache.k_dim == 64 || cache.k_dim == 128);
}

int64_t attention_scratch_floats(int tiles, int kv_heads, int splits, int v_dim) {
  return splits == 1 ? 0 : int64_t{tiles} * kv_heads * splits * part_floats(v_dim);
}

bool turns_heads(const AttentionArgs& args, const RopeStoreArgs& heads) {
  return args.tile_tokens == 1 && fast_attention(args.cache) && args.heads / args.cache.heads <= kAttentionRows &&
         heads.head_dim == args.cache.k_dim && (!heads.rope.split || 2 * heads.rope.pairs == args.cache.k_dim);
}

void launch_turning_attention(const Launch& launch, const AttentionArgs& args, const RopeStoreArgs& heads) {
  launch_fast<true>(launch, args, heads);
}

void launch_attention(const Launch& launch, const AttentionArgs& args) {
  const Cache& cache = args.cache;
  if (fast_attention(cache) && args.heads / cache.heads <= kAttentionRows)
    return launch_fast<false>(launch, args, RopeStoreArgs{});
  launch_plain_attention(launch, args);
}

} // namespace ridge::kernels::cuda
