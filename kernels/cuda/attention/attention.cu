// Causal attention over the cache, for one new token or a prompt's worth.
//
// A tile is up to 16 rows that read the same keys: the query heads that share a KV head (GQA), times as many
// consecutive tokens as fit. Scores and outputs are tensor-core products of 16 keys, or 16 columns of values, by
// [dim or keys x 8 rows]: keys and columns are the 16 rows of the tensor cores' tile and the few query heads its 8
// columns. The warps of a block share a round of 128 keys twice: each scores 16 of the keys, straight from the cache
// into registers, and then, after the round's only barrier, each makes 16 columns of the output out of all the weights
// and values, which lie in shared memory. So no outputs are merged: what warps tell each other is the scores'
// exponentials, and their maxima, rounded up to powers of two for exact factors. Where a context is long, `splits`
// blocks share it; the last one to finish (an atomic ticket) combines what they have.
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
#include "kernels/cuda/attention/cached_rows.cuh"
#include "kernels/cuda/attention/heads.cuh"

#include <algorithm>
#include <type_traits>

namespace ridge::kernels::cuda {
namespace {

constexpr int kWarps = 8, kThreads = kWarps * kWarp, kRows = kAttentionRows;
constexpr int kKeysPerWarp = 16, kKeysPerRound = kWarps * kKeysPerWarp;
// A second round costs less than another block to merge with, a third one more.
constexpr int kSingleSplitKeys = 2 * kKeysPerRound;
constexpr float kLog2e = 1.4426950408889634f;

// Per tile, KV head and split: running maximum and sum of 16 rows, then their outputs [16][v_dim].
constexpr int64_t part_floats(int v_dim) { return 2 * kRows + int64_t{kRows} * v_dim; }

// What the warps of a block share in a round: its values, and of each row and key the exponential of the score less the
// warp's maximum, and of each row and warp this maximum and the sum of the exponentials. Padded for the banks.
template <int kDim, int kTiles>
struct Round {
  __align__(16) __half values[kKeysPerRound][kDim + 8];
  __align__(16) __half weights[8 * kTiles][kKeysPerRound + 8];
  __align__(16) float largest[8 * kTiles][kWarps], sums[8 * kTiles][kWarps];
};

// Dims: of a head, k_dim = v_dim, 64 or 128. kTiles: of eight rows. kRope: q, k and v come as their matrices gave them,
// by `heads`; a tile is one token.
template <int kDim, bool kKeyCodes, bool kValueCodes, int kTiles, bool kRope>
__global__ void __launch_bounds__(kThreads, 2)
    attention_kernel(const __grid_constant__ AttentionArgs args, const __grid_constant__ RopeStoreArgs heads) {
  constexpr int kChunks = kDim / 32; // of 32 dims: two products deep
  constexpr int kTileRows = 8 * kTiles;
  const Cache& cache = args.cache;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, g = lane / 4, t = lane % 4;
  const int kv_head = blockIdx.x, split = blockIdx.y, tile = blockIdx.z;
  const int group = args.heads / cache.heads;
  const int first_token = tile * args.tile_tokens;
  const int tokens = min(args.tile_tokens, args.tokens - first_token), rows = tokens * group;
  __shared__ __align__(16) __half query[kTileRows][kDim + 32]; // in log2 units; padded for the banks
  extern __shared__ uint4 dynamic[];
  auto* const rounds = reinterpret_cast<Round<kDim, kTiles>*>(dynamic); // one or two, in turn
  const bool two_rounds = dynamic_shared_bytes() >= 2 * sizeof(Round<kDim, kTiles>);
  struct Newest { // what kRope adds: cosines and sines, this token's key as the cache has it, its value as f16
    __align__(16) float2 angles[kDim / 2];
    __align__(16) uint8_t key[2 * kDim];
    __align__(16) uint16_t key_scales[kDim / 32];
    __align__(16) __half value[kDim];
  };
  __shared__ std::conditional_t<kRope, Newest, char> newest;
  let_successor_start();
  stamp(args.stamps, kStarts);
  if constexpr (!kRope) wait_for_predecessor();
  if constexpr (!kRope) stamp(args.stamps, kMayGoOn);

  // All that the first loads need, in one go: one after the other these would take longer than what they wait for.
  const int64_t stream = args.streams[first_token];
  const int length = args.positions[first_token + tokens - 1] + 1;
  const int pair = threadIdx.x;
  const bool turned = kRope && pair < heads.rope.pairs;
  const float frequency = turned ? heads.rope.inverse_frequency[pair] : 0;
  __syncwarp(); // or the assembler moves them behind one another
  const int64_t head_at = (stream * cache.heads + kv_head) * cache.context;
  const Rows<kDim, kKeyCodes> keys(cache.k, cache.k_scales, head_at);
  const Rows<kDim, kValueCodes> values(cache.v, cache.v_scales, head_at);
  const int per_split =
      length <= kSingleSplitKeys
          ? kSingleSplitKeys
          : max(kKeysPerRound, (length + args.splits * kKeysPerWarp - 1) / (args.splits * kKeysPerWarp) * kKeysPerWarp);
  const int used_splits = (length + per_split - 1) / per_split;
  if (split >= used_splits) return;
  const int begin = split * per_split, end = min(length, begin + per_split);

  // A warp's keys of a round, base + 8 i + g; past the end the last ones again, masked below. They wait in registers,
  // the next round's as soon as this one's have been used.
  struct {
    typename Rows<kDim, kKeyCodes>::Piece piece[2][kChunks];
    typename Rows<kDim, kKeyCodes>::Scales scales[2];
  } key;
  const auto fetch_key = [&](int i, const auto& from, int row) {
    key.scales[i] = from.scales(row);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) key.piece[i][c] = from.load(row, 8 * t + 32 * c);
  };
  const auto key_row = [&](int base, int i) { return base + 8 * i + g; };
  const int stored = kRope ? max(length - 2, 0) : length - 1; // the last row that is in the cache from the beginning
  const auto fetch_keys = [&](int base) {
#pragma unroll
    for (int i = 0; i < 2; ++i) fetch_key(i, keys, min(key_row(base, i), stored));
  };
  // A round's values go to shared memory, zeros past the end: eight columns at a time, by all threads. Codes come by
  // way of registers.
  constexpr int kPieces = kDim / 8, kRowStep = kThreads / kPieces, kThreadPieces = kKeysPerRound / kRowStep;
  const int value_row = threadIdx.x / kPieces, value_column = threadIdx.x % kPieces * 8;
  const int newest_row = kRope && end == length ? length - 1 : -1, stored_end = kRope ? min(end, length - 1) : end;
  struct {
    uint2 piece[kValueCodes ? kThreadPieces : 1];
    uint16_t scale[kValueCodes ? kThreadPieces : 1];
  } value;
  const auto fetch_values = [&](int base, Round<kDim, kTiles>& to) {
    const auto* from_row = values.at(base + value_row, value_column);
#pragma unroll
    for (int i = 0; i < kThreadPieces; ++i) {
      const int in_round = value_row + i * kRowStep, row = base + in_round;
      if constexpr (kValueCodes) {
        value.piece[i] = values.load(min(row, stored), value_column);
        value.scale[i] = values.scale(min(row, stored), value_column);
      } else {
        copy_async_16_or_zeros(&to.values[in_round][value_column], from_row + i * kRowStep * kDim, row < stored_end);
      }
    }
    copy_async_commit();
  };
  const auto land_values = [&](int base, Round<kDim, kTiles>& to) {
    if constexpr (kValueCodes) {
#pragma unroll
      for (int i = 0; i < kThreadPieces; ++i) {
        const int in_round = value_row + i * kRowStep, row = base + in_round;
        const uint4 halves = values.halves(value.piece[i], value.scale[i]);
        *reinterpret_cast<uint4*>(&to.values[in_round][value_column]) = row < stored_end ? halves : uint4{};
      }
    }
    copy_async_wait<0>();
    if constexpr (kRope) // in place of the zeros: the thread that laid them down
      if (const int in_round = newest_row - base;
          in_round >= 0 && in_round < kKeysPerRound && in_round % kRowStep == value_row)
        *reinterpret_cast<uint4*>(&to.values[in_round][value_column]) =
            *reinterpret_cast<const uint4*>(&newest.value[value_column]);
  };
  const int first_base = begin + warp * kKeysPerWarp;
  if (first_base < end) fetch_keys(first_base);
  fetch_values(begin, rounds[0]);

  // The tile's queries into shared memory, and of the block that comes to the end of the context the new key and value:
  // a vector to kDim / 4 lanes.
  constexpr int kLanes = kDim / 4, kPerWarp = kWarp / kLanes;
  const Quad<kDim> quad(kRope && heads.rope.split);
  float2 angles[2] = {};
  float4 q_norm = {}, k_norm = {};
  if constexpr (kRope) {
    if (heads.q_norm) q_norm = quad.load(heads.q_norm);
    if (heads.k_norm) k_norm = quad.load(heads.k_norm);
    if (pair < kDim / 2)
      newest.angles[pair] = turned ? rope_cos_sin(frequency, length - 1, heads.rope.magnitude) : float2{1, 0};
    __syncthreads();
    angles[0] = newest.angles[2 * quad.number], angles[1] = newest.angles[2 * quad.number + 1];
  }
  const int vectors = kRope && end == length ? rows + 2 : rows;
  const auto vector = [&](int v) {
    v = min(v, vectors - 1);
    if constexpr (kRope) {
      const int64_t head = int64_t{first_token} * cache.heads + kv_head;
      return v < rows    ? heads.q_in + (head * group + v) * kDim
             : v == rows ? heads.k_in + head * kDim
                         : heads.v_in + head * kDim;
    } else {
      return args.q + (int64_t{first_token + v / group} * args.heads + kv_head * group + v % group) * kDim;
    }
  };
  const float* first_vector = vector(warp * kPerWarp + lane / kLanes);
  if constexpr (kRope) {
    asm volatile("" ::"l"(first_vector)); // known before the wait
    if (!heads.dataflow_input) wait_for_predecessor();
    stamp(args.stamps, kMayGoOn);
  }
  const auto load = [&](const float* from) {
    if constexpr (kRope) return quad.load_latest(from);
    return quad.load(from);
  };
  float4 ahead = load(first_vector);
#pragma unroll 1
  for (int first = warp * kPerWarp; first < vectors; first += kWarps * kPerWarp) {
    const int v = first + lane / kLanes;
    float4 x = ahead;
    if (first + kWarps * kPerWarp < vectors) ahead = load(vector(v + kWarps * kPerWarp));
    if constexpr (kRope) {
      while (heads.dataflow_input && __any_sync(~0u, is_sentinel(x))) x = load(vector(v));
      if (heads.q_norm || heads.k_norm) {
        const float squares = warp_reduce(
            x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w, [](float a, float b) { return a + b; }, kLanes);
        const float inverse = rsqrtf(squares / kDim + heads.epsilon);
        if (v < rows ? heads.q_norm : v == rows ? heads.k_norm : nullptr) {
          const float4 w = v < rows ? q_norm : k_norm;
          x = {x.x * inverse * w.x, x.y * inverse * w.y, x.z * inverse * w.z, x.w * inverse * w.w};
        }
      }
      if (v <= rows) quad.rotate(x, angles[0], angles[1]);
      if (vectors > rows && first + kPerWarp > rows) { // a key or value in this warp
        const int64_t at = head_at + length - 1;
        if constexpr (kKeyCodes) {
          const QuadCodes codes(x, quad.split);
          if (v == rows) {
            codes.store(quad, reinterpret_cast<int8_t*>(newest.key), newest.key_scales);
            codes.store(quad, static_cast<int8_t*>(cache.k) + at * kDim, cache.k_scales + at * (kDim / 32));
          }
        } else if (v == rows) {
          quad.store(reinterpret_cast<__half*>(newest.key), x);
          quad.store(static_cast<__half*>(cache.k) + at * kDim, x);
        }
        if constexpr (kValueCodes) {
          const QuadCodes codes(x, quad.split);
          if (v == rows + 1) {
            quad.store(newest.value, codes.values());
            codes.store(quad, static_cast<int8_t*>(cache.v) + at * kDim, cache.v_scales + at * (kDim / 32));
          }
        } else if (v == rows + 1) {
          quad.store(newest.value, x);
          quad.store(static_cast<__half*>(cache.v) + at * kDim, x);
        }
      }
    }
    const float scale = args.scale * kLog2e;
    if (v < rows) quad.store(query[v], {x.x * scale, x.y * scale, x.z * scale, x.w * scale});
  }
  __syncthreads();
  stamp(args.stamps, kHasInput);

  // Scores: of keys base + 8 i + g in rows 8 n + 2 t + k.
  int visible[kTiles][2]; // keys that a row sees
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int row = 8 * n + 2 * t + k;
      visible[n][k] = kRope || row >= rows ? end : min(end, args.positions[first_token + row / group] + 1);
    }
  // Outputs: a warp has 16 columns and the keys of kMine warps, which where there are 64 columns are half of them. Row
  // 8 n + g has its maximum and sum in lanes 4 g + t.
  constexpr int kKeyGroups = kWarps * 16 / kDim, kMine = kWarps / kKeyGroups;
  const int first_column = 16 * (warp % (kDim / 16)), first_mine = kMine * (warp / (kDim / 16));
  float row_max[kTiles], row_sum[kTiles];
  float out[kTiles][4]; // columns g (twice), g + 8 of rows 8 n + 2 t + k
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    row_max[n] = -INFINITY, row_sum[n] = 0;
    for (float& o : out[n]) o = 0;
  }
  int stage = 0;
#pragma unroll 1
  for (int round_base = begin;;) {
    Round<kDim, kTiles>& round = rounds[stage];
    const int base = round_base + warp * kKeysPerWarp, next = base + kKeysPerRound;
    float warp_max[kTiles][2], warp_total[kTiles][2];
    uint32_t weight[kTiles][2];
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int k = 0; k < 2; ++k) warp_max[n][k] = -INFINITY, warp_total[n][k] = 0, weight[n][k] = 0;
    if (base < end) {
      if constexpr (kRope)
        if (base + kKeysPerWarp >= length) {
          const Rows<kDim, kKeyCodes> new_key(newest.key, newest.key_scales, 0);
#pragma unroll
          for (int i = 0; i < 2; ++i)
            if (key_row(base, i) >= length - 1) fetch_key(i, new_key, 0);
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
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        float p[2][2];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          float s[2], largest = -INFINITY;
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            s[i] = key_row(base, i) < visible[n][k] ? score[n][0][2 * i + k] + score[n][1][2 * i + k] : -INFINITY;
            largest = fmaxf(largest, s[i]);
          }
          for (int lanes = 4; lanes < kWarp; lanes *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
          largest = ceilf(largest); // what warps differ by is a power of two, exact in f16
          const float reference = largest == -INFINITY ? 0 : largest;
          warp_max[n][k] = largest;
#pragma unroll
          for (int i = 0; i < 2; ++i) p[i][k] = exp2_approx(s[i] - reference);
          float sum = p[0][k] + p[1][k];
          for (int lanes = 4; lanes < kWarp; lanes *= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
          warp_total[n][k] = sum;
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) weight[n][i] = transposed_8x8(pack_half2(p[i][0], p[i][1]));
      }
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i)
        *reinterpret_cast<uint32_t*>(&round.weights[8 * n + g][kKeysPerWarp * warp + 8 * i + 2 * t]) = weight[n][i];
      if (g < 2) {
        round.largest[8 * n + 2 * t + g][warp] = g ? warp_max[n][1] : warp_max[n][0];
        round.sums[8 * n + 2 * t + g][warp] = g ? warp_total[n][1] : warp_total[n][0];
      }
    }
    land_values(round_base, round);
    __syncthreads();
    if (two_rounds && round_base + kKeysPerRound < end) fetch_values(round_base + kKeysPerRound, rounds[stage ^ 1]);

    float factor[kTiles][kMine];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float largest[kWarps], sum[kMine];
#pragma unroll
      for (int w = 0; w < kWarps; w += 4)
        put(largest + w, *reinterpret_cast<const float4*>(&round.largest[8 * n + g][w]));
#pragma unroll
      for (int w = 0; w < kMine; w += 4)
        put(sum + w, *reinterpret_cast<const float4*>(&round.sums[8 * n + g][first_mine + w]));
      float most = row_max[n];
#pragma unroll
      for (const float l : largest) most = fmaxf(most, l);
      const float reference = most == -INFINITY ? 0 : most;
      const float shrink = exp2_approx(row_max[n] - reference);
      row_max[n] = most;
      row_sum[n] *= shrink;
#pragma unroll
      for (int w = 0; w < kMine; ++w) {
        const float l = kKeyGroups == 1 || first_mine == 0 ? largest[w] : largest[(w + kMine) % kWarps];
        factor[n][w] = exp2_approx(l - reference);
        row_sum[n] += sum[w] * factor[n][w];
      }
      if (round_base > begin)
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const float of_row = __shfl_sync(~0u, shrink, 4 * (2 * t + k));
          out[n][k] *= of_row, out[n][2 + k] *= of_row;
        }
    }
#pragma unroll
    for (int c = 0; c < kMine; c += 2) { // 32 keys
      uint32_t columns[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i)
        load_matrix_transposed_x4(columns[i], &round.values[kKeysPerWarp * (first_mine + c + i) + lane / 16 * 8 +
                                                            lane % 8][first_column + lane / 8 % 2 * 8]);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        uint32_t w[4];
        load_matrix_x4(w, &round.weights[8 * n + lane % 8][kKeysPerWarp * (first_mine + c) + lane / 8 * 8]);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const __half2 by = __float2half2_rn(factor[n][c + i]);
          const auto times = [&](uint32_t pair) {
            const __half2 product = __hmul2(*reinterpret_cast<const __half2*>(&pair), by);
            return *reinterpret_cast<const uint32_t*>(&product);
          };
          mma_16x8x16(out[n], columns[i], times(w[2 * i]), times(w[2 * i + 1]));
        }
      }
    }
    round_base += kKeysPerRound;
    if (round_base >= end) break;
    if (two_rounds) {
      stage ^= 1;
    } else {
      __syncthreads();
      fetch_values(round_base, round);
    }
  }
  if constexpr (kKeyGroups == 2) { // add up the halves
    auto* halves = reinterpret_cast<float(*)[5 * kTiles][kWarp]>(dynamic);
    __syncthreads();
    if (first_mine > 0)
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) halves[warp - kMine][5 * n + i][lane] = out[n][i];
        halves[warp - kMine][5 * n + 4][lane] = row_sum[n];
      }
    __syncthreads();
    if (first_mine == 0)
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) out[n][i] += halves[warp][5 * n + i][lane];
        row_sum[n] += halves[warp][5 * n + 4][lane];
      }
  }

  const auto result_of = [&](int row) { // where a row's output goes
    const int64_t head = kRope ? (int64_t{first_token} * cache.heads + kv_head) * group + row
                               : int64_t{first_token + row / group} * args.heads + kv_head * group + row % group;
    return args.out + head * kDim;
  };
  float* parts = args.partial + (int64_t{tile} * cache.heads + kv_head) * args.splits * part_floats(kDim);
  float* part = parts + split * part_floats(kDim);
  if (first_mine == 0)
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float factor = used_splits == 1 ? reciprocal(row_sum[n]) : 1;
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int row = 8 * n + 2 * t + k;
        const float by = __shfl_sync(~0u, factor, 4 * (2 * t + k));
        if (row >= rows) continue;
        float* to = (used_splits == 1 ? result_of(row) : part + 2 * kRows + row * kDim) + first_column + g;
        store_latest(to, out[n][k] * by);
        store_latest(to + 8, out[n][2 + k] * by);
      }
      if (used_splits > 1 && warp == 0 && t == 0 && 8 * n + g < rows) {
        part[8 * n + g] = row_max[n];
        part[kRows + 8 * n + g] = row_sum[n];
      }
    }
  if (used_splits == 1) {
    stamp_latest(args.stamps, kEnds);
    if (kRope && heads.dataflow_input) wait_for_predecessor(); // who waits for this kernel waits for those before it
    return;
  }

  // The last block of the tile to come here combines the splits.
  const auto add = [](float4& sum, float4 x, float w) {
    sum.x += x.x * w, sum.y += x.y * w, sum.z += x.z * w, sum.w += x.w * w;
  };
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) { // for the block: the barriers pass on what the ticket orders
    unsigned* ticket = &args.tickets[tile * cache.heads + kv_head];
    last = take_ticket(ticket) == static_cast<unsigned>(used_splits - 1);
    if (last) *ticket = 0;
  }
  __syncthreads();
  if (!last) {
    stamp_latest(args.stamps, kEnds);
    return;
  }
  // Where there are more threads than outputs, some take every second, third … split.
  const int columns = rows * kLanes, groups = max(1, kThreads / columns), first_split = threadIdx.x / columns;
  constexpr int kBatch = 8; // of a thread's loads under way
  const auto fetch_parts = [&](float4(&batch)[kBatch], int i, int first) {
    const auto* from = reinterpret_cast<const float4*>(parts + 2 * kRows) + i;
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
      if (const int s = first + k * groups; s < used_splits) batch[k] = __ldcg(from + s * (part_floats(kDim) / 4));
  };
  float4 batch[kBatch];
  const bool takes_part = columns > kThreads || first_split < groups;
  const int first_four = columns > kThreads ? threadIdx.x : threadIdx.x % columns;
  if (takes_part) fetch_parts(batch, first_four, groups == 1 ? 0 : first_split);
  // What each split's outputs count.
  static_assert(kMaxAttentionSplits <= 2 * kWarp &&
                kMaxAttentionSplits * kTileRows * 4 + kThreads * 16 <= sizeof(Round<kDim, kTiles>));
  auto* share = reinterpret_cast<float(*)[kTileRows]>(dynamic); // [splits][rows]
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
  for (int i = takes_part ? first_four : columns; i < columns; i += kThreads) {
    float4 four = {};
#pragma unroll 1
    for (int first = groups == 1 ? 0 : first_split; first < used_splits; first += kBatch * groups) {
      if (i != first_four || first >= groups) fetch_parts(batch, i, first);
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
  if (kRope && heads.dataflow_input) wait_for_predecessor();
}

template <int kDim, int kTiles, bool kRope>
auto fast_kernel(const Cache& cache) {
  if (cache.k_scales)
    return cache.v_scales ? attention_kernel<kDim, true, true, kTiles, kRope>
                          : attention_kernel<kDim, true, false, kTiles, kRope>;
  return cache.v_scales ? attention_kernel<kDim, false, true, kTiles, kRope>
                        : attention_kernel<kDim, false, false, kTiles, kRope>;
}
template <int kDim, int kTiles, bool kRope>
void launch_fast(const Launch& launch, const AttentionArgs& args, const RopeStoreArgs& heads) {
  constexpr size_t kRoundBytes = sizeof(Round<kDim, kTiles>);
  const int stages = launch.shared_per_block >= (80 << 10) ? 2 : 1;
  const auto kernel = fast_kernel<kDim, kTiles, kRope>(args.cache);
  allow_shared(kernel, stages * kRoundBytes);
  const int tiles = (args.tokens + args.tile_tokens - 1) / args.tile_tokens;
  // Heads first: where the context is short, the blocks that have work start first.
  launch(kernel, dim3(args.cache.heads, args.splits, tiles), kThreads, stages * kRoundBytes, args, heads);
}
template <bool kRope>
void launch_fast(const Launch& launch, const AttentionArgs& args, const RopeStoreArgs& heads) {
  const bool narrow = args.tile_tokens * (args.heads / args.cache.heads) <= 8;
  if (args.cache.k_dim == 64)
    narrow ? launch_fast<64, 1, kRope>(launch, args, heads) : launch_fast<64, 2, kRope>(launch, args, heads);
  else
    narrow ? launch_fast<128, 1, kRope>(launch, args, heads) : launch_fast<128, 2, kRope>(launch, args, heads);
}

} // namespace

bool fast_attention(const Cache& cache) {
  return (cache.k_half || cache.k_scales) && (cache.v_half || cache.v_scales) && cache.k_dim == cache.v_dim &&
         (cache.k_dim == 64 || cache.k_dim == 128);
}

int64_t attention_scratch_floats(int tiles, int kv_heads, int splits, int v_dim) {
  return splits == 1 ? 0 : int64_t{tiles} * kv_heads * splits * part_floats(v_dim);
}

bool can_fuse_rope(const AttentionArgs& args, const RopeStoreArgs& heads) {
  return args.tile_tokens == 1 && fast_attention(args.cache) && args.heads / args.cache.heads <= kAttentionRows &&
         heads.head_dim == args.cache.k_dim && (!heads.rope.split || 2 * heads.rope.pairs == args.cache.k_dim);
}

void launch_rope_attention(const Launch& launch, const AttentionArgs& args, const RopeStoreArgs& heads) {
  launch_fast<true>(launch, args, heads);
}

void launch_attention(const Launch& launch, const AttentionArgs& args) {
  const Cache& cache = args.cache;
  if (fast_attention(cache) && args.heads / cache.heads <= kAttentionRows)
    return launch_fast<false>(launch, args, RopeStoreArgs{});
  launch_plain_attention(launch, args);
}

} // namespace ridge::kernels::cuda
