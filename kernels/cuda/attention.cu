// Causal attention over the cache, for one new token or a prompt's worth.
//
// A tile is up to 16 rows that read the same keys: the query heads that share a KV head (GQA), times as many
// consecutive tokens as fit. Scores and outputs are tensor-core products of 16 keys by [dim x 8 rows], straight from
// the cache into registers: a lane reads 16 consecutive bytes of a key or value, and the summation order inside a
// product, which is free, is chosen to suit. Keys, and a value's columns, are the 16 rows of the tensor cores' tile and
// the few query heads its 8 columns: half the registers of the other way round. The warps of a block share its keys and
// `splits` blocks a tile's context, each with its own running maximum and sum. Warps are merged two and two; the last
// block to finish (an atomic ticket) combines the splits.
//
// A q8_0 cache is the same with eight codes for eight halves, made into f16 in registers.
//
// Where no token of the batch attends to another one's key, as in decoding, the kernel also does what lies between the
// matrices and attention: each block norms and turns its query heads, and the block that comes to the end of the
// context the new key, which it stores with the value. That saves a kernel per layer, and all that does not depend on
// the matrices (positions, angles, the first cached keys) is at hand before these are done. What is left then is a
// chain of latencies, gone through once: hence all of q, k and v in one load of each thread, and little code, which is
// in no cache either after a layer's weights.
//
// What this kernel does not take (other head sizes, f32 caches) goes to plain_attention.cu.
#include "kernels/cuda/cached_rows.cuh"
#include "kernels/cuda/heads.cuh"

#include <algorithm>
#include <type_traits>

namespace ridge::kernels::cuda {
namespace {

constexpr int kKeysPerStep = 16, kRows = kAttentionRows;
// Warps of a block whose tiles have so many times eight rows: two blocks of them fill a multiprocessor's registers.
constexpr int warps_of(int tiles) { return 8 / tiles; }
constexpr float kLog2e = 1.4426950408889634f;

// Per tile, KV head and split: running maximum and sum of 16 rows, then their outputs [16][v_dim].
constexpr int64_t part_floats(int v_dim) { return 2 * kRows + int64_t{kRows} * v_dim; }

// Dims: of a head, k_dim = v_dim, 64 or 128. kTiles: of eight rows. kTurn: q, k and v come as their matrices gave them,
// by `heads`; a tile is one token.
template <int kDim, bool kKeyCodes, bool kValueCodes, int kTiles, bool kTurn>
__global__ void __launch_bounds__(warps_of(kTiles) * kWarp, 2)
    attention_kernel(const __grid_constant__ AttentionArgs args, const __grid_constant__ RopeStoreArgs heads) {
  constexpr int kWarps = warps_of(kTiles), kKeysPerRound = kWarps * kKeysPerStep;
  constexpr int kChunks = kDim / 32; // of 32 dims: two products deep
  constexpr int kColumns = kDim / 8; // of a value that a lane holds
  constexpr int kTileRows = 8 * kTiles;
  const Cache& cache = args.cache;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, g = lane / 4, t = lane % 4;
  const int kv_head = blockIdx.x, split = blockIdx.y, tile = blockIdx.z;
  const int group = args.heads / cache.heads;
  const int first_token = tile * args.tile_tokens;
  const int tokens = min(args.tile_tokens, args.tokens - first_token), rows = tokens * group;
  __shared__ __align__(16) __half query[kTileRows][kDim + 32]; // in log2 units; padded for the banks
  // What a warp hands another one, lane by lane: two maxima and two sums, then the outputs.
  constexpr int kHanded = kTiles * (1 + kColumns / 2);
  __shared__ float4 handed[kWarps / 2][kHanded][kWarp];
  struct Newest { // what kTurn adds: cosines and sines, and the key and value of this token as the cache has them
    __align__(16) float2 angles[kDim / 2];
    __align__(16) uint8_t key[2 * kDim], value[2 * kDim];
    __align__(16) uint16_t key_scales[kDim / 32], value_scales[kDim / 32];
  };
  __shared__ std::conditional_t<kTurn, Newest, char> newest;
  let_successor_start();
  stamp(args.stamps, kStarts);
  if constexpr (!kTurn) wait_for_predecessor();
  if constexpr (!kTurn) stamp(args.stamps, kMayGoOn);

  // All that the first loads need, in one go: one after the other these would take longer than what they wait for.
  const int64_t stream = args.streams[first_token];
  const int length = args.positions[first_token + tokens - 1] + 1;
  const int pair = threadIdx.x;
  const bool turned = kTurn && pair < heads.rope.pairs;
  const float frequency = turned ? heads.rope.inverse_frequency[pair] : 0;
  __syncwarp(); // or the assembler moves them behind one another
  const int64_t head_at = (stream * cache.heads + kv_head) * cache.context;
  const Rows<kDim, kKeyCodes> keys(cache.k, cache.k_scales, head_at);
  const Rows<kDim, kValueCodes> values(cache.v, cache.v_scales, head_at);
  const int per_split =
      max(kKeysPerRound, (length + args.splits * kKeysPerStep - 1) / (args.splits * kKeysPerStep) * kKeysPerStep);
  const int used_splits = (length + per_split - 1) / per_split;
  if (split >= used_splits) return;
  const int begin = split * per_split, end = min(length, begin + per_split);

  // Keys base + 8 i + g, values of the keys base + 8 i + 2 t + k; past the end the last ones again, masked below. The
  // next step's keys are fetched when this one's have been used, and its values likewise: sixteen warps to a
  // multiprocessor hide no latency otherwise.
  struct {
    typename Rows<kDim, kKeyCodes>::Piece piece[2][kChunks];
    typename Rows<kDim, kKeyCodes>::Scales scales[2];
  } key;
  struct {
    typename Rows<kDim, kValueCodes>::Piece piece[4][kColumns / 8];
    uint16_t scale[4]; // a lane's columns lie in one block of 32
  } value;
  const auto fetch_key = [&](int i, const auto& from, int row) {
    key.scales[i] = from.scales(row);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) key.piece[i][c] = from.load(row, 8 * t + 32 * c);
  };
  const auto fetch_value = [&](int i, const auto& from, int row) {
    value.scale[i] = from.scale(row, kColumns * g);
#pragma unroll
    for (int c = 0; c < kColumns / 8; ++c) value.piece[i][c] = from.load(row, kColumns * g + 8 * c);
  };
  const auto key_row = [&](int base, int i) { return base + 8 * i + g; };
  const auto value_row = [&](int base, int i) { return base + 8 * (i / 2) + 2 * t + i % 2; };
  const int stored = kTurn ? max(length - 2, 0) : length - 1; // the last row that is in the cache from the beginning
  const auto fetch_keys = [&](int base) {
#pragma unroll
    for (int i = 0; i < 2; ++i) fetch_key(i, keys, min(key_row(base, i), stored));
  };
  const auto fetch_values = [&](int base) {
#pragma unroll
    for (int i = 0; i < 4; ++i) fetch_value(i, values, min(value_row(base, i), stored));
  };
  const int first_base = begin + warp * kKeysPerStep;
  if (first_base < end) {
    fetch_keys(first_base);
    fetch_values(first_base);
  }

  // The tile's queries into shared memory, and of the block that comes to the end of the context the new key and value:
  // a vector to kDim / 4 lanes.
  constexpr int kLanes = kDim / 4, kPerWarp = kWarp / kLanes;
  const Quad<kDim> quad(kTurn && heads.rope.split);
  float2 angles[2] = {};
  float4 q_norm = {}, k_norm = {};
  if constexpr (kTurn) {
    if (heads.q_norm) q_norm = quad.load(heads.q_norm);
    if (heads.k_norm) k_norm = quad.load(heads.k_norm);
    if (pair < kDim / 2)
      newest.angles[pair] = turned ? turn_of(frequency, length - 1, heads.rope.magnitude) : float2{1, 0};
    __syncthreads();
    angles[0] = newest.angles[2 * quad.number], angles[1] = newest.angles[2 * quad.number + 1];
  }
  const int vectors = kTurn && end == length ? rows + 2 : rows;
  const auto vector = [&](int v) {
    v = min(v, vectors - 1);
    if constexpr (kTurn) {
      const int64_t head = int64_t{first_token} * cache.heads + kv_head;
      return v < rows    ? heads.q_in + (head * group + v) * kDim
             : v == rows ? heads.k_in + head * kDim
                         : heads.v_in + head * kDim;
    } else {
      return args.q + (int64_t{first_token + v / group} * args.heads + kv_head * group + v % group) * kDim;
    }
  };
  const float* first_vector = vector(warp * kPerWarp + lane / kLanes);
  if constexpr (kTurn) {
    asm volatile("" ::"l"(first_vector)); // known before the wait
    if (!heads.handed_over) wait_for_predecessor();
    stamp(args.stamps, kMayGoOn);
  }
  const auto load = [&](const float* from) {
    if constexpr (kTurn) return quad.load_latest(from);
    return quad.load(from);
  };
  float4 ahead = load(first_vector);
#pragma unroll 1
  for (int first = warp * kPerWarp; first < vectors; first += kWarps * kPerWarp) {
    const int v = first + lane / kLanes;
    float4 x = ahead;
    if (first + kWarps * kPerWarp < vectors) ahead = load(vector(v + kWarps * kPerWarp));
    if constexpr (kTurn) {
      while (heads.handed_over && __any_sync(~0u, is_absent(x))) x = load(vector(v));
      if (heads.q_norm || heads.k_norm) {
        const float squares = warp_reduce(
            x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w, [](float a, float b) { return a + b; }, kLanes);
        const float inverse = rsqrtf(squares / kDim + heads.epsilon);
        if (v < rows ? heads.q_norm : v == rows ? heads.k_norm : nullptr) {
          const float4 w = v < rows ? q_norm : k_norm;
          x = {x.x * inverse * w.x, x.y * inverse * w.y, x.z * inverse * w.z, x.w * inverse * w.w};
        }
      }
      if (v <= rows) quad.turn_by(x, angles[0], angles[1]);
      if (vectors > rows && first + kPerWarp > rows) { // a key or value in this warp
        const int64_t at = head_at + length - 1;
        const auto put = [&]<bool kCodes>(uint8_t* here, uint16_t* scales_here, void* cached, uint16_t* cached_scales) {
          if constexpr (kCodes) {
            const QuadCodes codes(x, quad.split);
            if (cached) {
              codes.store(quad, reinterpret_cast<int8_t*>(here), scales_here);
              codes.store(quad, static_cast<int8_t*>(cached) + at * kDim, cached_scales + at * (kDim / 32));
            }
          } else if (cached) {
            quad.store(reinterpret_cast<__half*>(here), x);
            quad.store(static_cast<__half*>(cached) + at * kDim, x);
          }
        };
        put.template operator()<kKeyCodes>(newest.key, newest.key_scales, v == rows ? cache.k : nullptr,
                                           cache.k_scales);
        put.template operator()<kValueCodes>(newest.value, newest.value_scales, v == rows + 1 ? cache.v : nullptr,
                                             cache.v_scales);
      }
    }
    const float scale = args.scale * kLog2e;
    if (v < rows) quad.store(query[v], {x.x * scale, x.y * scale, x.z * scale, x.w * scale});
  }
  __syncthreads();
  stamp(args.stamps, kHasInput);

  // Rows 8 n + 2 t + k, k < 2, of this lane.
  int visible[kTiles][2]; // keys that a row sees
  float row_max[kTiles][2], row_sum[kTiles][2];
  float out[kTiles][kColumns / 2][4]; // [j]: columns kColumns g + 2 j of rows k = 0, 1, then the next column
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int row = 8 * n + 2 * t + k;
      visible[n][k] = kTurn || row >= rows ? end : min(end, args.positions[first_token + row / group] + 1);
      row_max[n][k] = -INFINITY;
      row_sum[n][k] = 0;
    }
#pragma unroll
    for (int j = 0; j < kColumns / 2; ++j)
      for (float& o : out[n][j]) o = 0;
  }

#pragma unroll 1
  for (int base = first_base; base < end; base += kKeysPerRound) {
    const int next = base + kKeysPerRound;
    if constexpr (kTurn)
      if (base + kKeysPerStep >= length) {
        const Rows<kDim, kKeyCodes> new_key(newest.key, newest.key_scales, 0);
        const Rows<kDim, kValueCodes> new_value(newest.value, newest.value_scales, 0);
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (key_row(base, i) >= length - 1) fetch_key(i, new_key, 0);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (value_row(base, i) >= length - 1) fetch_value(i, new_value, 0);
      }
    float score[kTiles][2][4] = {}; // two sums for shorter chains: rows k of key g, then of key g + 8
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const uint4 k0 = keys.halves(key.piece[0][c], key.scales[0][c]),
                  k1 = keys.halves(key.piece[1][c], key.scales[1][c]);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const uint4 q = *reinterpret_cast<const uint4*>(&query[8 * n + g][32 * c + 8 * t]);
        mma_16x8x16(score[n][0], {k0.x, k1.x, k0.y, k1.y}, q.x, q.y);
        mma_16x8x16(score[n][1], {k0.z, k1.z, k0.w, k1.w}, q.z, q.w);
      }
    }
    if (next < end) fetch_keys(next);
    uint32_t weight[kTiles][2]; // the scores' exponentials, as the right operand of the next product
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float p[2][2], shrink[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        float s[2], largest = row_max[n][k];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          s[i] = key_row(base, i) < visible[n][k] ? score[n][0][2 * i + k] + score[n][1][2 * i + k] : -INFINITY;
          largest = fmaxf(largest, s[i]);
        }
        for (int lanes = 4; lanes < kWarp; lanes *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
        const float reference = largest == -INFINITY ? 0 : largest;
        shrink[k] = exp2_approx(row_max[n][k] - reference);
        row_max[n][k] = largest;
#pragma unroll
        for (int i = 0; i < 2; ++i) p[i][k] = exp2_approx(s[i] - reference);
        row_sum[n][k] = row_sum[n][k] * shrink[k] + (p[0][k] + p[1][k]);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) weight[n][i] = transposed_8x8(pack_half2(p[i][0], p[i][1]));
#pragma unroll
      for (int j = 0; j < kColumns / 2; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) out[n][j][i] *= shrink[i % 2];
    }
#pragma unroll
    for (int c = 0; c < kColumns / 8; ++c) {
      uint32_t v[4][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint4 piece = values.halves(value.piece[i][c], value.scale[i]);
        v[i][0] = piece.x, v[i][1] = piece.y, v[i][2] = piece.z, v[i][3] = piece.w;
      }
#pragma unroll
      for (int w = 0; w < 4; ++w) { // two columns of each key -> two keys of each column
        const uint32_t columns[4] = {__byte_perm(v[0][w], v[1][w], 0x5410), __byte_perm(v[0][w], v[1][w], 0x7632),
                                     __byte_perm(v[2][w], v[3][w], 0x5410), __byte_perm(v[2][w], v[3][w], 0x7632)};
#pragma unroll
        for (int n = 0; n < kTiles; ++n) mma_16x8x16(out[n][4 * c + w], columns, weight[n][0], weight[n][1]);
      }
    }
    if (next < end) fetch_values(next);
  }

  // Merge the warps: the second half of those that had keys hands over what it has, until one has it all.
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int k = 0; k < 2; ++k)
      for (int lanes = 4; lanes < kWarp; lanes *= 2) row_sum[n][k] += __shfl_xor_sync(~0u, row_sum[n][k], lanes);
#pragma unroll 1
  for (int left = min(kWarps, (end - begin + kKeysPerStep - 1) / kKeysPerStep); left > 1;) {
    const int half = (left + 1) / 2;
    if (warp >= half && warp < left) {
      float4(&to)[kHanded][kWarp] = handed[warp - half];
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        to[n][lane] = {row_max[n][0], row_max[n][1], row_sum[n][0], row_sum[n][1]};
#pragma unroll
        for (int j = 0; j < kColumns / 2; ++j)
          to[kTiles + n * (kColumns / 2) + j][lane] = {out[n][j][0], out[n][j][1], out[n][j][2], out[n][j][3]};
      }
    }
    __syncthreads();
    if (warp + half < left) {
      const float4(&from)[kHanded][kWarp] = handed[warp];
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const float4 other = from[n][lane];
        float mine[2], theirs[2];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const float other_max = k ? other.y : other.x, largest = fmaxf(row_max[n][k], other_max);
          const float reference = largest == -INFINITY ? 0 : largest;
          mine[k] = exp2_approx(row_max[n][k] - reference), theirs[k] = exp2_approx(other_max - reference);
          row_sum[n][k] = row_sum[n][k] * mine[k] + (k ? other.w : other.z) * theirs[k];
          row_max[n][k] = largest;
        }
#pragma unroll
        for (int j = 0; j < kColumns / 2; ++j) {
          const float4 o = from[kTiles + n * (kColumns / 2) + j][lane];
          out[n][j][0] = out[n][j][0] * mine[0] + o.x * theirs[0];
          out[n][j][1] = out[n][j][1] * mine[1] + o.y * theirs[1];
          out[n][j][2] = out[n][j][2] * mine[0] + o.z * theirs[0];
          out[n][j][3] = out[n][j][3] * mine[1] + o.w * theirs[1];
        }
      }
    }
    __syncthreads();
    left = half;
  }

  const auto result_of = [&](int row) { // where a row's output goes
    const int64_t head = kTurn ? (int64_t{first_token} * cache.heads + kv_head) * group + row
                               : int64_t{first_token + row / group} * args.heads + kv_head * group + row % group;
    return args.out + head * kDim;
  };
  float* parts = args.partial + (int64_t{tile} * cache.heads + kv_head) * args.splits * part_floats(kDim);
  float* part = parts + split * part_floats(kDim);
  if (warp == 0)
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int row = 8 * n + 2 * t + k;
        if (row >= rows) continue;
        const float factor = used_splits == 1 ? 1 / row_sum[n][k] : 1;
        float* to = (used_splits == 1 ? result_of(row) : part + 2 * kRows + row * kDim) + kColumns * g;
#pragma unroll
        for (int j = 0; j < kColumns / 2; j += 2)
          store_latest(to + 2 * j, {out[n][j][k] * factor, out[n][j][2 + k] * factor, out[n][j + 1][k] * factor,
                                    out[n][j + 1][2 + k] * factor});
        if (used_splits > 1 && g == 0) {
          part[row] = row_max[n][k];
          part[kRows + row] = row_sum[n][k];
        }
      }
  if (used_splits == 1) {
    stamp_latest(args.stamps, kEnds);
    if (kTurn && heads.handed_over) wait_for_predecessor(); // who waits for this kernel waits for those before it
    return;
  }

  // The last block of the tile to come here combines the splits.
  const auto add = [](float4& sum, float4 x, float w) {
    sum.x += x.x * w, sum.y += x.y * w, sum.z += x.z * w, sum.w += x.w * w;
  };
  __shared__ bool last;
  if (warp == 0) {
    __syncwarp();
    if (lane == 0) { // for the whole warp, and then the block: the barriers pass on what the fences order
      unsigned* ticket = &args.tickets[tile * cache.heads + kv_head];
      __threadfence();
      last = atomicAdd(ticket, 1) == static_cast<unsigned>(used_splits - 1);
      if (last) *ticket = 0;
      __threadfence();
    }
  }
  __syncthreads();
  if (!last) {
    stamp_latest(args.stamps, kEnds);
    return;
  }
  // Where there are more threads than outputs, some take every second, third … split.
  const int columns = rows * kLanes, groups = max(1, kWarps * kWarp / columns), first_split = threadIdx.x / columns;
  constexpr int kBatch = 8; // of a thread's loads under way
  const auto fetch_parts = [&](float4(&batch)[kBatch], int i, int first) {
    const auto* from = reinterpret_cast<const float4*>(parts + 2 * kRows) + i;
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
      if (const int s = first + k * groups; s < used_splits) batch[k] = __ldcg(from + s * (part_floats(kDim) / 4));
  };
  float4 batch[kBatch];
  const bool takes_part = columns > kWarps * kWarp || first_split < groups;
  const int first_column = columns > kWarps * kWarp ? threadIdx.x : threadIdx.x % columns;
  if (takes_part) fetch_parts(batch, first_column, groups == 1 ? 0 : first_split);
  // What each split's outputs count.
  static_assert(kMaxAttentionSplits <= 2 * kWarp &&
                kMaxAttentionSplits * kTileRows / 4 + kWarps * kWarp <= sizeof(handed) / sizeof(float4));
  auto* share = reinterpret_cast<float(*)[kTileRows]>(&handed[0][0][0]); // [splits][rows]
#pragma unroll 1
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
      largest[k] = exp2_approx(largest[k] - reference);
      total += largest[k] * sum[k];
    }
    total = warp_sum(total);
#pragma unroll
    for (int k = 0; k < 2; ++k)
      if (const int s = lane + k * kWarp; s < used_splits) share[s][row] = largest[k] / total;
  }
  __syncthreads();
  float4* sums = reinterpret_cast<float4*>(&share[kMaxAttentionSplits][0]); // of the groups
#pragma unroll 1
  for (int i = takes_part ? first_column : columns; i < columns; i += kWarps * kWarp) {
    float4 four = {};
#pragma unroll 1
    for (int first = groups == 1 ? 0 : first_split; first < used_splits; first += kBatch * groups) {
      if (i != first_column || first >= groups) fetch_parts(batch, i, first);
#pragma unroll
      for (int k = 0; k < kBatch; ++k)
        if (const int s = first + k * groups; s < used_splits) add(four, batch[k], share[s][i / kLanes]);
    }
    if (groups == 1)
      store_latest(result_of(i / kLanes) + i % kLanes * 4, four);
    else
      sums[threadIdx.x] = four;
  }
  if (groups > 1) {
    __syncthreads();
    if (const int i = threadIdx.x; i < columns) {
      float4 four = sums[i];
      for (int k = 1; k < groups; ++k) add(four, sums[i + k * columns], 1);
      store_latest(result_of(i / kLanes) + i % kLanes * 4, four);
    }
  }
  stamp_latest(args.stamps, kEnds);
  if (kTurn && heads.handed_over) wait_for_predecessor();
}

template <int kDim, int kTiles, bool kTurn>
auto fast_kernel(const Cache& cache) {
  if (cache.k_scales)
    return cache.v_scales ? attention_kernel<kDim, true, true, kTiles, kTurn>
                          : attention_kernel<kDim, true, false, kTiles, kTurn>;
  return cache.v_scales ? attention_kernel<kDim, false, true, kTiles, kTurn>
                        : attention_kernel<kDim, false, false, kTiles, kTurn>;
}
template <bool kTurn>
void launch_fast(const Launch& launch, const AttentionArgs& args, const RopeStoreArgs& heads) {
  const Cache& cache = args.cache;
  const int tiles = (args.tokens + args.tile_tokens - 1) / args.tile_tokens;
  const bool narrow = args.tile_tokens * (args.heads / cache.heads) <= 8;
  const auto kernel = cache.k_dim == 64 ? narrow ? fast_kernel<64, 1, kTurn>(cache) : fast_kernel<64, 2, kTurn>(cache)
                      : narrow ? fast_kernel<128, 1, kTurn>(cache)
                                        : fast_kernel<128, 2, kTurn>(cache);
  // Heads first: where the context is short, the blocks that have work start first.
  launch(kernel, dim3(cache.heads, args.splits, tiles), warps_of(narrow ? 1 : 2) * kWarp, 0, args, heads);
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
