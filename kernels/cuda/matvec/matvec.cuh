// y = W x for one to four rows of activations at a time: the kernel of decoding.
//
// Rows go in row_blocks whose units of the same columns lie side by side (layout.cuh): chunks of 2 KB or so. A block
// has neighbouring row_blocks; its warps share out the chunks evenly, the row_blocks of one unit first, then those of
// the next. So a warp meets the same columns again and again and keeps its activations in registers: each lane takes
// one group (with one-bit weights: matvec_bits.cuh), 32 codes times 32 activations (matvec_groups.cuh), of row after
// row. Sums of a row over the columns of a unit meet in shared memory at the end.
//
// Each warp fetches its chunks into a ring in shared memory, several ahead, with 16-byte asynchronous copies; so the
// bytes in flight do not depend on registers or on how soon the arithmetic is done, and the first chunks are on their
// way before the activations exist. These may be handed over by a kernel that still runs (ptx.cuh).
//
// The RMS norm in front of a matrix costs nothing: its weight is multiplied in while the activations are brought in,
// and the scalar 1/rms, known only after that, scales the results.
//
// A kernel lives for some 5 to 20 microseconds, so that every instruction of its beginning and end is fetched for a
// single use, and all kernels of a layer together should fit the instruction cache: loops here are not unrolled without
// need.
#pragma once

#include "kernels/cuda/matvec/matvec.h"
#include "kernels/cuda/matvec/matvec_bits.cuh"
#include "kernels/cuda/matvec/matvec_groups.cuh"
#include "kernels/cuda/runtime/ptx.cuh"

#include <algorithm>
#include <utility>

namespace ridge::kernels::cuda {

// Warps per block where shared memory has room for their rings; chips with less (64 KB on sm_75, 99 on sm_86, 89, 120)
// run fewer.
inline constexpr int kMatvecWarps = 16, kMatvecThreads = kMatvecWarps * kWarp;

// A warp's ring has slots of a chunk each, enough for 3 KB on their way, 48 KB per multiprocessor; the formats with
// large units, whose arithmetic is light, gain from twice that. Of them, kEarly are fetched before the activations.
template <typename Format>
struct Chunks {
  static constexpr int kRows = TileLayout<Format>::kRowBlockRows, kTileBytes = TileLayout<Format>::kBytes;
  static constexpr int kBytes = kRows * kTileBytes;
  static constexpr int kInFlight = kTileBytes >= 1024 ? 6400 : 3200;
  static constexpr int kSlots = std::clamp((kInFlight + kBytes - 1) / kBytes + 1, 3, 8);
  static constexpr int kEarly = std::clamp(2400 / kBytes, 1, kSlots - 1);
  static constexpr int kCopies = (kBytes / 16 + kWarp - 1) / kWarp; // of 16 bytes, by each lane

  // Counts the row_blocks of the segments' rows; returns how many there are of results.
  static int count_row_blocks(MatvecArgs& args) {
    int row_blocks = 0;
    for (int s = 0; s < args.segments; ++s) {
      args.segment[s].row_blocks = (args.segment[s].rows + kRows - 1) / kRows;
      if (s == 0 || !args.swiglu) row_blocks += args.segment[s].row_blocks;
    }
    return args.result_row_blocks = row_blocks;
  }
  // ... and shares them out.
  static void share_out(MatvecArgs& args, int blocks) {
    args.row_blocks_per_block = args.result_row_blocks / blocks;
    args.fuller_blocks = args.result_row_blocks % blocks;
  }
};

// `row_blocks`: of rows, that a block has.
template <typename Format, bool kExact>
constexpr int64_t matvec_shared_bytes(int64_t cols, int tokens, int warps, int row_blocks) {
  using C = Chunks<Format>;
  const int64_t tiles = (TileLayout<Format>::groups_of(cols) + kTileGroups - 1) / kTileGroups;
  return kLutBytes<Format, kExact> + int64_t{warps} * (C::kSlots * C::kBytes + 4 * tokens) +
         tokens * (activation_bytes<Format, kExact>(cols) + 16) + (row_blocks + 1) / 2 * 16 +
         int64_t{row_blocks} * C::kRows * tiles * tokens * 4 + 16;
}

// a / b for 0 <= a < 2^21, without the twenty instructions of a division: the quotient of floats is off by less than
// half of 1 / b.
__device__ __forceinline__ int quotient(int a, int b) {
  return static_cast<int>(__fdividef(static_cast<float>(a) + 0.5f, static_cast<float>(b)));
}

// Lane l gets the sum of v[l % kCount] over the eight lanes from l / 8 * 8 on.
template <int kCount>
__device__ __forceinline__ float sum_of_eight(float (&v)[kCount]) {
#pragma unroll
  for (int half = kCount / 2; half > 0; half /= 2) {
    const bool upper = threadIdx.x & half;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float mine = upper ? v[i + half] : v[i], others = upper ? v[i] : v[i + half];
      v[i] = mine + __shfl_xor_sync(~0u, others, half);
    }
  }
#pragma unroll
  for (int offset = kCount; offset < 8; offset *= 2) v[0] += __shfl_xor_sync(~0u, v[0], offset);
  return v[0];
}

// The work of block `block` of `blocks`. kWhole: rows are whole units, so that where a lane's group lies is known to
// the compiler.
template <typename Format, int kTokens, bool kExact, bool kWhole>
__device__ __forceinline__ void multiply_rows(const MatvecArgs& args, int block, int blocks) {
  using L = Layout<Format>;
  using U = TileLayout<Format>;
  using C = Chunks<Format>;
  constexpr bool kFloat = kFloatDots<Format, kExact>, kBits = !kExact && BitFormat<Format>;
  constexpr int kRing = C::kSlots;
  const bool polls = !kFloat && args.dataflow_input; // float formats' weights come before all else
  let_successor_start();
  stamp(args.stamps, kStarts);
  const int threads = blockDim.x, warps = threads / kWarp;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int first_token = blockIdx.y * kTokens, tokens = min(kTokens, args.tokens - first_token);
  const auto cols = static_cast<unsigned>(args.cols);
  const int groups = static_cast<int>((cols + L::kGroupWeights - 1) / L::kGroupWeights),
            tiles = static_cast<int>((cols + U::kWeights - 1) / U::kWeights);
  const int tail_groups = kWhole ? kTileGroups : groups - (tiles - 1) * kTileGroups;
  const int tail_bytes = kWhole ? C::kTileBytes : U::rounded(L::tile_payload(tail_groups));
  const auto tile_bytes = [&](int tile) { return kWhole || tile < tiles - 1 ? C::kTileBytes : tail_bytes; };

  // The weights of the norm are constant: they are fetched first, or would wait behind the others.
  const auto load_norm = [&](float(&v)[8], int i) {
    if (!args.norm_weight || i >= args.cols) return;
    put(v, *reinterpret_cast<const float4*>(args.norm_weight + i));
    put(v + 4, *reinterpret_cast<const float4*>(args.norm_weight + i + 4));
  };
  float norm[8];
  if constexpr (!kWhole) // what multiplies the zeros of lanes without columns
#pragma unroll
    for (float& v : norm) v = 0;
  const int my_first = 8 * static_cast<int>(threadIdx.x);
  if constexpr (!kFloat) load_norm(norm, my_first);
  if (args.norm_weight)
    for (int i = my_first + (kFloat ? 0 : 8 * threads); i < args.cols; i += 8 * threads)
      prefetch_l2(args.norm_weight + i);

  // Eight values a thread, while the next ones are on their way. Those of a kernel that is done are asked for before
  // the weights. So are those that are handed over, which may be there already, and again after them where they are
  // not.
  constexpr int kAhead = kTokens == 1 ? 3 : 1;
  const int stride = 8 * threads;
  float now[8], next[kAhead][8];
  if constexpr (!kWhole) { // else whole warps have values or none
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      now[j] = 0;
#pragma unroll
      for (int k = 0; k < kAhead; ++k) next[k][j] = 0;
    }
  }
  const float* from = args.x + first_token * args.x_stride + my_first;
  asm volatile("" : "+l"(from)); // or it is made again for every load
  int column = my_first;
  const auto load = [&](float(&v)[8], int strides) {
    if (column + strides * stride >= args.cols) return;
    put(v, load_latest_4(from + strides * stride));
    put(v + 4, load_latest_4(from + strides * stride + 4));
  };
  const auto load_all = [&] {
    load(now, 0);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) load(next[k], k + 1);
  };
  const bool asks_first = polls || (args.after_predecessor && !args.ids);
  if (!kFloat && asks_first) load_all();

  // This block's row_blocks: those of results, or with swiglu those of the gate, then those of up. They are neighbours,
  // so that the next kernel's warps each wait for a few blocks.
  const int first_row_block = args.row_blocks_per_block * block + min(block, args.fuller_blocks),
            result_row_blocks = args.row_blocks_per_block + (block < args.fuller_blocks);
  const int row_blocks = args.swiglu ? 2 * result_row_blocks : result_row_blocks;
  const auto locate = [&](int row_block, int& segment_row_block) -> const MatvecSegment& {
    segment_row_block = first_row_block + row_block;
    int s = 0;
    while (segment_row_block >= args.segment[s].row_blocks) segment_row_block -= args.segment[s++].row_blocks;
    return args.segment[s];
  };

  extern __shared__ uint4 shared[];
  auto* lut_words = reinterpret_cast<uint8_t*>(shared);
  uint8_t* const my_ring = lut_words + kLutBytes<Format, kExact> + warp * kRing * C::kBytes;
  uint8_t* behind_ring = lut_words + kLutBytes<Format, kExact> + warps * kRing * C::kBytes;
  auto* chunks = reinterpret_cast<const uint8_t**>(behind_ring); // of the row_blocks, those of the first tile
  uint8_t* activations = behind_ring + (row_blocks + 1) / 2 * 16;
  const int token_bytes = (groups * kGroupBytes<Format, kExact> + 15) / 16 * 16;
  auto* scratch = reinterpret_cast<float*>(activations + kTokens * token_bytes); // per token a float per warp
  float* sums = scratch + kTokens * warps;                                       // [tokens][tiles][row_blocks][rows]

  int64_t expert_offset = 0;
  if (args.ids) {
    wait_for_predecessor();
    expert_offset = args.ids[first_token] * args.expert_bytes;
    if (!args.x_per_slot) from = args.x + first_token / args.slots * args.x_stride + my_first;
  }
  for (int i = threadIdx.x; i < row_blocks; i += threads) {
    const bool up = i >= result_row_blocks;
    int segment_row_block;
    const MatvecSegment& segment = locate(up ? i - result_row_blocks : i, segment_row_block);
    chunks[i] = (up ? args.segment[1].weights : segment.weights) + expert_offset +
                int64_t{segment_row_block} * (C::kRows * args.row_bytes);
  }
  __syncthreads();

  // The warp's chunks. The fetching side runs kRing - 1 of them ahead of the computing side.
  const int share = quotient(row_blocks * tiles, warps),
            more = row_blocks * tiles - share * warps; // warps with one more
  const int first_chunk = share * warp + min(warp, more);
  int left = share + (warp < more), tile = quotient(first_chunk, row_blocks),
      row_block = first_chunk - tile * row_blocks;
  int fetch_tile = tile, fetch_row_block = row_block;
  uint32_t fetch_offset = tile * C::kBytes + 16 * lane; // of a row_block's first byte, where this lane's first copy is
  const uint64_t policy = evict_first_policy();
  const auto fetch_next = [&](uint8_t* slot, bool any) {
    if (any) {
      const uint8_t* from = chunks[fetch_row_block] + fetch_offset;
      const int bytes = C::kRows * tile_bytes(fetch_tile) - 16 * lane;
      const uint32_t to = plain_address(slot + 16 * lane, args.cols >> 31);
      [&]<int... kCopy>(std::integer_sequence<int, kCopy...>) {
        constexpr int kStride = 16 * kWarp;
        const auto copy = [&]<int kOffset>(std::integral_constant<int, kOffset>) {
          if ((kWhole && kOffset + kStride <= C::kBytes) || kOffset < bytes) copy_async_16<kOffset>(to, from, policy);
        };
        (copy(std::integral_constant<int, kCopy * kStride>()), ...);
      }
      (std::make_integer_sequence<int, C::kCopies>());
      if (++fetch_row_block == row_blocks) fetch_row_block = 0, ++fetch_tile, fetch_offset += C::kBytes;
    }
    copy_async_commit(); // also where there is nothing left, so that counts stay in step
  };
  using Lut = LutOf<Format, kExact>;
  const typename Lut::template Filler<kMatvecThreads> filler(threadIdx.x); // before the weights stand in its way
  // Of what a block has room for, some 2 KB per warp are fetched before the activations, which would otherwise wait in
  // the memory's queues behind the weights, and the others right behind them.
  constexpr int kEarly = kFloat ? kRing - 1 : C::kEarly;
#pragma unroll 1
  for (int s = 0; s < kEarly; ++s) fetch_next(my_ring + s * C::kBytes, s < left);
  filler.store(lut_words);
  for (int t = threadIdx.x + threads; t < kMatvecThreads; t += threads) // the shares of warps that there is no room for
    typename Lut::template Filler<kMatvecThreads>(t).store(lut_words);
  const Lut lut(lut_words);

  // Bring in the activations.
  if (!polls) wait_for_predecessor();
  stamp(args.stamps, kMayGoOn);
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    if (t >= tokens) continue;
    if (t > 0) from += args.x_stride - (column - my_first), column = my_first;
    const float* x = from - my_first;
    uint8_t* to = activations + t * token_bytes;
    float squares = 0;
    if constexpr (kFloat && kWhole) {
      constexpr int kQuads = L::kGroupWeights / 4, kBatch = 8; // loads under way together
      auto* out = reinterpret_cast<float4*>(to);
      const int quads = args.cols / 4;
      for (int first = threadIdx.x; first < quads; first += kBatch * threads) {
        float4 v[kBatch];
#pragma unroll
        for (int k = 0; k < kBatch; ++k)
          if (first + k * threads < quads) v[k] = reinterpret_cast<const float4*>(x)[first + k * threads];
#pragma unroll
        for (int k = 0; k < kBatch; ++k) {
          const int i = first + k * threads;
          if (i >= quads) break;
          if (args.norm_weight) {
            squares += v[k].x * v[k].x + v[k].y * v[k].y + v[k].z * v[k].z + v[k].w * v[k].w;
            const float4 w = reinterpret_cast<const float4*>(args.norm_weight)[i];
            v[k] = {v[k].x * w.x, v[k].y * w.y, v[k].z * w.z, v[k].w * w.w};
          }
          out[i % kQuads * groups + i / kQuads] = v[k];
        }
      }
    } else if constexpr (kFloat) {
      constexpr int kGroup = L::kGroupWeights;
      auto* out = reinterpret_cast<float*>(to);
      for (int i = threadIdx.x; i < groups * kGroup; i += threads) {
        float v = i < args.cols ? x[i] : 0;
        squares += v * v;
        if (args.norm_weight && i < args.cols) v *= args.norm_weight[i];
        out[(i % kGroup / 4 * groups + i / kGroup) * 4 + i % 4] = v;
      }
    } else {
      // cols is a multiple of 32.
      if (t > 0 || !asks_first) load_all();
      const auto arrive = [&] {
        if (polls && column - 8 * lane < args.cols)
          for (bool absent; __any_sync(~0u, absent = is_sentinel(now));)
            if (absent) load(now, 0); // only these: all blocks ask the same memory
      };
      arrive();
      if (t == 0 && polls) stamp(args.stamps, kMayGoOn);
      __syncwarp(); // or the assembler moves these loads behind the weights, 1 µs later
      if (t == 0)
#pragma unroll 1
        for (int s = kEarly; s < kRing - 1; ++s) fetch_next(my_ring + s * C::kBytes, s < left);
      std::conditional_t<kBits, BitStore, IntegerStore<L, kLowParts<Format>>> store(to, groups, my_first);
#pragma unroll 1
      while (column - 8 * lane < args.cols) { // by whole warps
        if (args.norm_weight)
#pragma unroll
          for (int j = 0; j < 8; ++j) {
            squares += now[j] * now[j];
            now[j] *= norm[j];
          }
        store(now, kWhole || column < args.cols);
        column += stride, from += stride;
        if (column - 8 * lane >= args.cols) break;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          now[j] = next[0][j];
#pragma unroll
          for (int k = 1; k < kAhead; ++k) next[k - 1][j] = next[k][j];
        }
        if (!kWhole && column >= args.cols)
#pragma unroll
          for (float& v : now) v = 0;
        load_norm(norm, column);
        load(next[kAhead - 1], kAhead);
        store.advance(threads / 4);
        arrive();
      }
      if (kTokens > 1) load_norm(norm, my_first); // for the next token
    }
    if (args.norm_weight) {
      squares = warp_sum(squares);
      if (lane == 0) scratch[t * warps + warp] = squares;
    }
  }
  // What is added to the results is fetched now, to be there by then.
  const auto residual_at = [&](int t, int row) {
    return args.residual + (first_token + t) * args.residual_stride + row;
  };
  constexpr int kAdders = 4; // lanes that add up a row's sums
  const int results = result_row_blocks * C::kRows, first_result = static_cast<int>(threadIdx.x) / kAdders;
  float addend[kTokens] = {};
  if (const int row = first_row_block * C::kRows + first_result; row < args.segment[0].rows && first_result < results)
#pragma unroll
    for (int t = 0; t < kTokens; ++t)
      if (args.residual && t < tokens) addend[t] = load_latest(residual_at(t, row));
  __syncthreads();
  stamp(args.stamps, kHasInput);
  float result_scale[kTokens];
#pragma unroll
  for (int t = 0; t < kTokens; ++t)
    result_scale[t] =
        (kExact ? 1 : L::kConstantScale) *
        (args.norm_weight && t < tokens ? rsqrtf(__fdividef(warp_sum(lane < warps ? scratch[t * warps + lane] : 0),
                                                            static_cast<float>(args.cols)) +
                                                 args.norm_epsilon)
                                        : 1);

  constexpr bool kHeld = kTokens * (kFloat ? L::kGroupWeights : 20) <= 40; // activations stay in registers
  using Activations =
      std::conditional_t<kBits, BitTile,
                         std::conditional_t<kFloat, FloatGroup<L::kGroupWeights>, IntegerGroup<L, kLowParts<Format>>>>;
  constexpr int kSumLanes = kBits ? 4 : 1;                    // that get the sum of the same row
  uint32_t landed_at = 0, freed_at = (kRing - 1) * C::kBytes; // in the ring
  float* chunk_sums = sums + first_chunk * C::kRows + lane / kSumLanes;
  for (; left > 0; row_block = 0, ++tile) {
    const int tile_groups = !kWhole && tile == tiles - 1 ? tail_groups : kTileGroups;
    const bool active = kWhole || lane < tile_groups;
    const int my_group = active ? lane : 0, group = tile * kTileGroups + my_group, row_bytes = tile_bytes(tile);
    const auto activations_of = [&](int t) {
      if constexpr (kBits)
        return BitTile(activations + t * token_bytes, groups, tile * kTileGroups, tile_groups);
      else
        return Activations(activations + t * token_bytes, groups, group);
    };
    Activations held[kHeld ? kTokens : 1];
    if constexpr (kHeld)
#pragma unroll
      for (int t = 0; t < kTokens; ++t) held[t] = activations_of(t);
    const auto with = [&](int t, const auto& use) {
      if constexpr (kHeld)
        use(held[t]);
      else
        use(activations_of(t));
    };
    for (; left > 0 && row_block < row_blocks; --left, ++row_block) {
      copy_async_wait<kRing - 2>();
      __syncwarp(); // the chunk has landed for all lanes, and the one before has been used by all
      fetch_next(my_ring + freed_at, left >= kRing);
      const uint8_t* const landed = my_ring + landed_at;
      float total[kTokens]; // lane l's: of row l / kSumLanes
      if constexpr (kBits) {
        static_assert(C::kRows == kWarp / kSumLanes);
#pragma unroll
        for (int t = 0; t < kTokens; ++t)
          with(t, [&](const Activations& x) { total[t] = x.template dot<kWhole>(landed, row_bytes); });
#pragma unroll
        for (float& v : total)
#pragma unroll
          for (int lanes = 1; lanes < kSumLanes; lanes *= 2) v += __shfl_xor_sync(~0u, v, lanes);
      } else {
        float sum[kTokens][C::kRows], block_scale = 1; // lane l's: of row l % kRows and its eight lanes' groups
        if constexpr (!kFloat && L::kBlockScale)
          if (kWhole || lane < tile_groups)
            block_scale = L::block_scale(landed + lane % C::kRows * row_bytes, tile_groups, lane / 8);
#pragma unroll
        for (int j = 0; j < C::kRows; j += 2) {
          const uint8_t *first_tile = landed + j * row_bytes, *second_tile = first_tile + row_bytes;
          const auto multiply = [&](const auto& first, const auto& second, const auto& dot) {
#pragma unroll
            for (int t = 0; t < kTokens; ++t)
              with(t, [&](const Activations& x) {
                sum[t][j] = active ? dot(first, x) : 0;
                sum[t][j + 1] = active ? dot(second, x) : 0;
              });
          };
          if constexpr (kFloat) {
            Numbers<L::kGroupWeights> first, second;
            load_numbers<Format>(first, first_tile, tile_groups, my_group, lut);
            load_numbers<Format>(second, second_tile, tile_groups, my_group, lut);
            multiply(first, second, [](const auto& w, const Activations& x) { return x.dot(w); });
          } else {
            GroupCodes first, second;
            load_group<L>(first, first_tile, tile_groups, my_group, lut);
            load_group<L>(second, second_tile, tile_groups, my_group, lut);
            multiply(first, second, [](const GroupCodes& w, const Activations& x) { return group_dot<L>(w, x); });
          }
        }
#pragma unroll
        for (int t = 0; t < kTokens; ++t) {
          total[t] = sum_of_eight(sum[t]) * block_scale;
#pragma unroll
          for (int lanes = 8; lanes < kWarp; lanes *= 2) total[t] += __shfl_xor_sync(~0u, total[t], lanes);
        }
      }
      if (lane % kSumLanes == 0 && lane < kSumLanes * C::kRows)
#pragma unroll
        for (int t = 0; t < kTokens; ++t) chunk_sums[t * tiles * row_blocks * C::kRows] = total[t];
      chunk_sums += C::kRows;
      freed_at = landed_at;
      landed_at = landed_at == (kRing - 1) * C::kBytes ? 0 : landed_at + C::kBytes;
    }
  }
  __syncthreads();

#pragma unroll 1
  for (int i = first_result; i - lane / kAdders < results; i += threads / kAdders) { // by whole warps
    const bool real = i < results;
    int row;
    const MatvecSegment& segment = locate(real ? i / C::kRows : 0, row);
    row = row * C::kRows + i % C::kRows;
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      float value[2] = {0, 0}; // the second with swiglu
#pragma unroll 1
      for (int u = lane % kAdders; u < tiles; u += kAdders) {
        const float* of_tile = sums + (t * tiles + u) * row_blocks * C::kRows + (real ? i : 0);
        value[0] += of_tile[0];
        if (args.swiglu) value[1] += of_tile[results];
      }
#pragma unroll
      for (float& v : value) {
#pragma unroll
        for (int offset = 1; offset < kAdders; offset *= 2) v += __shfl_xor_sync(~0u, v, offset);
        v *= result_scale[t];
      }
      if (!real || row >= segment.rows || t >= tokens || lane % kAdders != 0) continue;
      if (segment.bias) value[0] += segment.bias[row];
      if (args.swiglu) {
        if (args.segment[1].bias) value[1] += args.segment[1].bias[row];
        value[0] = __fdividef(value[0], 1 + __expf(-value[0])) * value[1];
      }
      if (args.residual) {
        if (i != first_result) addend[t] = load_latest(residual_at(t, row));
        while (polls && is_sentinel(addend[t])) addend[t] = load_latest(residual_at(t, row));
        value[0] += addend[t];
      }
      store_latest(segment.out + (first_token + t) * segment.out_stride + row, value[0]);
    }
  }
  stamp(args.stamps, kEnds);
  if (polls) wait_for_predecessor(); // who waits for this kernel waits for those before it
}

template <typename Format, int kTokens, bool kExact, bool kWhole>
__global__ void __launch_bounds__(kMatvecThreads, 1) matvec_kernel(const __grid_constant__ MatvecArgs args) {
  multiply_rows<Format, kTokens, kExact, kWhole>(args, blockIdx.x, gridDim.x);
}

// Two matrices of different formats with one input, a token's: each has blocks of its own.
template <typename First, typename Second>
__global__ void __launch_bounds__(kMatvecThreads, 1)
    matvec_pair_kernel(const __grid_constant__ MatvecArgs first, const __grid_constant__ MatvecArgs second,
                       int first_blocks) {
  const int block = blockIdx.x, blocks = gridDim.x;
  if (block < first_blocks)
    multiply_rows<First, 1, false, true>(first, block, first_blocks);
  else
    multiply_rows<Second, 1, false, true>(second, block - first_blocks, blocks - first_blocks);
}

} // namespace ridge::kernels::cuda
