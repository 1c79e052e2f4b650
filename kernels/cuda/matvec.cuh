// y = W x for one to four rows of activations at a time: the kernel of decoding.
//
// Each warp works on whole rows, two at a time. It fetches their units into a ring in shared memory, several ahead,
// with 16-byte asynchronous copies; so the bytes in flight do not depend on registers or on how soon the arithmetic is
// done, and the first units are on their way before the activations exist. Each lane then takes one item of either row:
// 32 codes times 32 activations.
//
// Activations are integers for this: x ≈ s · (256 · high + low), one scale s per 32, 16 bits, high and low in bytes, so
// that a product of four codes and four activations is one instruction (dp4a) for each half. That is exact to about
// 1e-9 NMSE, the arithmetic being hidden behind the weights' bytes. In exact mode, and for float formats, both weights
// and activations are f32 instead.
//
// The RMS norm in front of a matrix costs nothing: its weight is multiplied in while the activations are brought in,
// and the scalar 1/rms, known only after that, scales the results.
#pragma once

#include "kernels/cuda/layout.cuh"
#include "kernels/cuda/matvec.h"
#include "kernels/cuda/ptx.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {

// Warps per block where shared memory has room for their rings; chips with less (64 KB on sm_75, 99 on sm_86, 89, 120)
// run fewer.
inline constexpr int kMatvecWarps = 16, kMatvecThreads = kMatvecWarps * kWarp;

// A warp takes units of the same columns from group after group of rows, so that its activations stay in registers; the
// units of a group lie side by side: a chunk.
//
// Its ring has slots of a chunk each, enough for 3 KB on their way, 48 KB per multiprocessor. The formats with large
// units, whose arithmetic is light, gain from twice that (Q8_0 4 %, F16 1 %; Q4_K loses 4 %).
template <typename Format>
struct Chunks {
  static constexpr int kUnitBytes = Units<Format>::kBytes;
  static constexpr int kRows = kUnitBytes <= 900 ? 4 : 2;
  static constexpr int kBytes = kRows * kUnitBytes;
#ifndef RIDGE_RING
#define RIDGE_RING 3200
#endif
  static constexpr int kInFlight = kUnitBytes >= 1024 && RIDGE_RING < 6400 ? 6400 : RIDGE_RING;
  static constexpr int kSlots =
      std::clamp((kInFlight + kBytes - 1) / kBytes + 1, 3, std::max(3, std::min(8, 11900 / kBytes)));
  static constexpr int kCopies = (kBytes / 16 + kWarp - 1) / kWarp; // of 16 bytes, by each lane
};

template <typename Format, bool kExact>
inline constexpr bool kFloatDots = kExact || quant::FloatFormat<Format>;

// Shared memory of the activations of one token.
//   integers: 80 bytes per group of 32, as five planes of 16 bytes per group (high 0-15, high 16-31, low 0-15, low
//   16-31; its scale s, and s times the sum of its first half, of its second half, and of all);
//   floats: planes of 4 values per item, so that the lanes' 16-byte reads lie side by side.
template <typename Format, bool kExact>
constexpr int64_t activation_bytes(int64_t cols) {
  const int64_t items = Units<Format>::items_of(cols);
  return kFloatDots<Format, kExact> ? items * Layout<Format>::kItemWeights * 4 : items * 80;
}

// The table of codebook points, which the dots of packed weights look up in shared memory.
template <typename Format, bool kExact>
inline constexpr int kBookBytes = kFloatDots<Format, kExact> ? 0 : Layout<Format>::Book::kBytes;

// Sums of a panel of rows, over the columns of a unit each, for two panels in turn.
inline constexpr int kPanelBytes = 4096;

template <typename Format, bool kExact>
constexpr int64_t matvec_shared_bytes(int64_t cols, int tokens, int warps) {
  using C = Chunks<Format>;
  return kBookBytes<Format, kExact> + int64_t{warps} * (C::kSlots * C::kBytes + 4 * tokens) +
         tokens * (activation_bytes<Format, kExact>(cols) + 16) + 2 * kPanelBytes + 16;
}

inline constexpr int kHighWorth = 256; // what a high part of an activation counts, in low ones

// Eight values of a group of 32 that four neighbouring lanes hold -> shared memory.
__device__ __forceinline__ void store_integers(uint4* to, int groups, int first, const float (&v)[8], unsigned lanes) {
  constexpr float kMax = 127 * kHighWorth + 127;
  // 1.5 · 2^23 added to a float leaves it rounded in the low bits. With 128 more, byte 1 is the high part, rounded, and
  // byte 0 the low part plus 128, which is its signed byte with the top bit turned.
  constexpr float kMagic = 12582912.0f + 128;
  float largest = 0;
#pragma unroll
  for (float value : v) largest = fmaxf(largest, fabsf(value));
  largest = fmaxf(largest, __shfl_xor_sync(lanes, largest, 1));
  largest = fmaxf(largest, __shfl_xor_sync(lanes, largest, 2));
  const float inverse = largest > 1e-30f ? __fdividef(kMax, largest) : 0;
  uint32_t high[2], low[2];
  int total = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    uint32_t q[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) q[k] = __float_as_uint(__fmaf_rn(v[4 * i + k], inverse, kMagic));
    high[i] = __byte_perm(__byte_perm(q[0], q[1], 0x0051), __byte_perm(q[2], q[3], 0x0051), 0x5410);
    low[i] = __byte_perm(__byte_perm(q[0], q[1], 0x0040), __byte_perm(q[2], q[3], 0x0040), 0x5410) ^ 0x80808080;
    total += __dp4a(static_cast<int>(high[i]), 0x01010101, 0) * kHighWorth;
    total = __dp4a(static_cast<int>(low[i]), 0x01010101, total);
  }
  total += __shfl_xor_sync(lanes, total, 1); // of 16
  const int other_half = __shfl_xor_sync(lanes, total, 2);
  const int group = first / 32, half = first / 16 % 2, part = first / 8 % 2;
  auto* planes = reinterpret_cast<uint2*>(to);
  planes[2 * (half * groups + group) + part] = {high[0], high[1]};
  planes[2 * ((2 + half) * groups + group) + part] = {low[0], low[1]};
  if (half == 0 && part == 0) {
    const float scale = largest * (1 / kMax);
    reinterpret_cast<float4*>(to)[4 * groups + group] = {scale, scale * static_cast<float>(total),
                                                         scale * static_cast<float>(other_half),
                                                         scale * static_cast<float>(total + other_half)};
  }
}

__device__ __forceinline__ int dot16(const uint32_t* codes, const uint4& x, int sum) {
  sum = __dp4a(static_cast<int>(codes[0]), static_cast<int>(x.x), sum);
  sum = __dp4a(static_cast<int>(codes[1]), static_cast<int>(x.y), sum);
  sum = __dp4a(static_cast<int>(codes[2]), static_cast<int>(x.z), sum);
  return __dp4a(static_cast<int>(codes[3]), static_cast<int>(x.w), sum);
}

// Group `group` of one token's activations.
struct IntegerItem {
  uint4 high[2], low[2];
  float4 scale_sums;

  IntegerItem() = default;
  __device__ __forceinline__ IntegerItem(const uint8_t* activations, int groups, int group) {
    const auto* planes = reinterpret_cast<const uint4*>(activations) + group;
    high[0] = planes[0];
    high[1] = planes[groups];
    low[0] = planes[2 * groups];
    low[1] = planes[3 * groups];
    scale_sums = *reinterpret_cast<const float4*>(planes + 4 * groups);
  }
};

// Σ weight · activation over an item.
template <typename L>
__device__ __forceinline__ float item_dot(const Item& w, const IntegerItem& x) {
  constexpr bool kSums = L::kHasOffset || L::kBias != 0;
  const auto shift = [&](int i) { // what stands beside the products of codes
    if constexpr (L::kBias == 0) return w.offset[i];
    return (L::kHasOffset ? w.offset[i] : 0) - w.scale[i] * static_cast<float>(L::kBias);
  };
  const int high0 = dot16(w.word, x.high[0], 0), low0 = dot16(w.word, x.low[0], 0);
  if constexpr (L::kHalfScales) {
    const int high1 = dot16(w.word + 4, x.high[1], 0), low1 = dot16(w.word + 4, x.low[1], 0);
    float result = (w.scale[0] * static_cast<float>(high0 * kHighWorth + low0) +
                    w.scale[1] * static_cast<float>(high1 * kHighWorth + low1)) *
                   x.scale_sums.x;
    if constexpr (kSums)
      result += shift(0) * x.scale_sums.y + shift(1) * x.scale_sums.z;
    return result;
  } else {
    const int dot = dot16(w.word + 4, x.high[1], high0) * kHighWorth + dot16(w.word + 4, x.low[1], low0);
    float result = w.scale[0] * (static_cast<float>(dot) * x.scale_sums.x);
    if constexpr (kSums) result += shift(0) * x.scale_sums.w;
    return result;
  }
}

// An item of one token's activations as floats.
template <int kWeights>
struct FloatItem {
  float4 quad[kWeights / 4];

  FloatItem() = default;
  __device__ __forceinline__ FloatItem(const uint8_t* activations, int items, int item) {
    const auto* from = reinterpret_cast<const float4*>(activations) + item;
#pragma unroll
    for (int k = 0; k < kWeights / 4; ++k) quad[k] = from[k * items];
  }
  __device__ __forceinline__ float dot(const float (&w)[kWeights]) const {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kWeights / 4; ++k)
      sum += w[4 * k] * quad[k].x + w[4 * k + 1] * quad[k].y + w[4 * k + 2] * quad[k].z + w[4 * k + 3] * quad[k].w;
    return sum;
  }
};

// Lane l gets the sum over the warp of v[l % kCount].
template <int kCount>
__device__ __forceinline__ float warp_sums(float (&v)[kCount]) {
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
  for (int offset = kCount; offset < kWarp; offset *= 2) v[0] += __shfl_xor_sync(~0u, v[0], offset);
  return v[0];
}

// A warp's way through its block's work. Of the groups of rows of all segments in sequence a block has every
// `blocks`th, in panels of as many as there is room for sums. In a panel, units come one after the other with all groups
// each; every warp has an equal part of that sequence, in runs: groups of one matrix, the columns of one unit. With
// swiglu a panel has the groups of the gate, then those of up.
template <typename Format>
struct Walk {
  static constexpr int kRows = Chunks<Format>::kRows;
  const MatvecArgs& args;
  int64_t expert_offset = 0;
  int units, panel_groups, blocks, next_group, end;
  // The panel: its first group and how many of results, and of rows; what is left of the warp's part.
  int first = 0, result_groups = 0, groups = 0, tasks = 0;
  // The run: where its first chunk lies; groups left, the first of them counted from the panel's.
  const uint8_t* at = nullptr;
  int unit = 0, group = 0, left = 0;

  static __device__ __forceinline__ int groups_of(int rows) { return (rows + kRows - 1) / kRows; }

  __device__ __forceinline__ Walk(const MatvecArgs& args, int units, int panel_groups, int block, int blocks)
      : args(args), units(units), panel_groups(panel_groups), blocks(blocks), next_group(block),
        end(groups_of(args.segment[0].rows)) {
    for (int s = 1; s < args.segments && !args.swiglu; ++s) end += groups_of(args.segment[s].rows);
  }

  __device__ __forceinline__ bool next_panel(int warp, int warps) {
    if (next_group >= end) return false;
    first = next_group;
    result_groups = min(args.swiglu ? panel_groups / 2 : panel_groups, (end - first + blocks - 1) / blocks);
    groups = args.swiglu ? 2 * result_groups : result_groups;
    next_group += result_groups * blocks;
    const int task = groups * units * warp / warps;
    tasks = groups * units * (warp + 1) / warps - task;
    unit = task / groups;
    group = task - unit * groups;
    return true;
  }

  // The segment of a group of results, and which of its groups that is.
  __device__ __forceinline__ const MatvecSegment& segment_of(int result_group, int& segment_group) const {
    segment_group = first + result_group * blocks;
    int s = 0;
    while (segment_group >= groups_of(args.segment[s].rows)) segment_group -= groups_of(args.segment[s++].rows);
    return args.segment[s];
  }

  // Within the panel; the run before must be at its end.
  __device__ __forceinline__ bool next_run() {
    if (tasks == 0) return false;
    if (group == groups) group = 0, ++unit;
    const MatvecSegment* segment = &args.segment[0];
    int segment_group;
    if (args.swiglu) {
      const bool second = group >= result_groups;
      if (second) segment = &args.segment[1];
      segment_group = first + (group - (second ? result_groups : 0)) * blocks;
      left = (second ? groups : result_groups) - group;
    } else {
      segment = &segment_of(group, segment_group);
      left = min(groups - group, (groups_of(segment->rows) - segment_group + blocks - 1) / blocks);
    }
    left = min(left, tasks);
    tasks -= left;
    at = segment->weights + expert_offset + segment_group * kRows * args.row_bytes +
         int64_t{unit} * Chunks<Format>::kBytes;
    return true;
  }

  __device__ __forceinline__ void step() {
    if (left == 0) return;
    ++group;
    --left;
    at += blocks * kRows * args.row_bytes;
  }
};

// The work of block `block` of `blocks`. kWhole: rows are whole units, so that where a lane's item lies is known to the
// compiler.
template <typename Format, int kTokens, bool kExact, bool kWhole>
__device__ __forceinline__ void multiply_rows(const MatvecArgs& args, int block, int blocks) {
  using L = Layout<Format>;
  using U = Units<Format>;
  constexpr bool kFloat = kFloatDots<Format, kExact>;
  using C = Chunks<Format>;
  constexpr int kRing = C::kSlots;
  const int threads = blockDim.x, warps = threads / kWarp;
  extern __shared__ uint4 shared[];
  auto* book_words = reinterpret_cast<uint8_t*>(shared);
  uint8_t* ring = book_words + kBookBytes<Format, kExact>;
  auto* panels = reinterpret_cast<float*>(ring + warps * kRing * C::kBytes);
  uint8_t* activations = reinterpret_cast<uint8_t*>(panels) + 2 * kPanelBytes;
  const int items = static_cast<int>(U::items_of(args.cols));
  const int token_bytes = static_cast<int>((activation_bytes<Format, kExact>(args.cols) + 15) / 16 * 16);
  auto* scratch = reinterpret_cast<float*>(activations + kTokens * token_bytes); // per token a float per warp

  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int first_token = blockIdx.y * kTokens;
  const int tokens = min(kTokens, args.tokens - first_token);
  let_successor_start();
  stamp(args.stamps, 0);

  const int units = (items + kUnitItems - 1) / kUnitItems;
  const int tail_items = kWhole ? kUnitItems : items - (units - 1) * kUnitItems;
  const int panel_groups = kPanelBytes / 4 / (kTokens * units * C::kRows);

  // The fetching side runs kRing - 1 chunks ahead of the computing side.
  Walk<Format> fetch(args, units, panel_groups, block, blocks);
  if (args.ids) {
    wait_for_predecessor();
    fetch.expert_offset = args.ids[first_token] * args.expert_bytes;
  }
  if (!fetch.next_panel(warp, warps)) return;
  fetch.next_run();
  Walk<Format> compute = fetch;
  uint8_t* const my_ring = ring + warp * kRing * C::kBytes;
  uint8_t* fetch_to = my_ring;
  const int tail_bytes = kWhole ? C::kUnitBytes : U::rounded(L::unit_payload(tail_items));
  const auto unit_bytes = [&](int unit) { return kWhole || unit < units - 1 ? C::kUnitBytes : tail_bytes; };
  const auto fetch_chunk = [&] {
    const int bytes = fetch.left == 0 ? 0 : C::kRows * unit_bytes(fetch.unit);
#pragma unroll
    for (int k = 0; k < C::kCopies; ++k)
      if (const int i = 16 * (lane + k * kWarp); i < bytes) copy_async_16(fetch_to + i, fetch.at + i);
    fetch.step();
    fetch_to = fetch_to == my_ring + (kRing - 1) * C::kBytes ? my_ring : fetch_to + C::kBytes;
    copy_async_commit(); // also where there is nothing left, so that counts stay in step
  };
  const auto fetch_next = [&] {
    while (fetch.left == 0 && (fetch.next_run() || fetch.next_panel(warp, warps))) {}
    fetch_chunk();
  };
  using Book = std::conditional_t<kFloat, NoBook, typename L::Book>;
  const typename Book::template Filler<kMatvecThreads> filler(threadIdx.x); // before the weights stand in its way
  float first_norm[8]; // the weights of the norm are constant: those of a thread's first activations wait in registers
  if (!kFloat && args.norm_weight && 8 * threadIdx.x < args.cols) {
    const auto* w = reinterpret_cast<const float4*>(args.norm_weight + 8 * threadIdx.x);
    *reinterpret_cast<float4*>(first_norm) = w[0];
    *reinterpret_cast<float4*>(first_norm + 4) = w[1];
  }
  // Of what a block has room for, it fetches one chunk per warp before the activations, which would otherwise wait in the
  // memory's queues behind the weights, and the others right behind them.
  constexpr int kEarly = kFloat ? kRing - 1 : 1;
  fetch_chunk();
#pragma unroll 1
  for (int s = 1; s < kEarly; ++s) fetch_next();
  const auto fetch_late = [&] {
#pragma unroll 1
    for (int s = kEarly; s < kRing - 1; ++s) fetch_next();
  };
  filler.store(book_words);
  for (int t = threadIdx.x + threads; t < kMatvecThreads; t += threads) // the shares of warps that there is no room for
    typename Book::template Filler<kMatvecThreads>(t).store(book_words);
  const Book book(book_words);

  // Bring in the activations. The weights of the norm are constant: they can be near by then.
  if (args.norm_weight)
    for (int i = 8 * (threadIdx.x + (kFloat ? 0 : threads)); i < args.cols; i += 8 * threads)
      prefetch_l2(args.norm_weight + i);
  wait_for_predecessor();
  stamp(args.stamps, 1);
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    if (t >= tokens) continue;
    const int64_t token = first_token + t;
    const float* x = args.x + (args.ids && !args.x_per_slot ? token / args.slots : token) * args.x_stride;
    uint8_t* to = activations + t * token_bytes;
    float squares = 0;
    if constexpr (kFloat && kWhole) {
      constexpr int kQuads = L::kItemWeights / 4, kBatch = 8; // loads under way together
      auto* out = reinterpret_cast<float4*>(to);
      const int quads = args.cols / 4;
      for (int base = 0; base < quads; base += kBatch * threads) {
        const int first = base + threadIdx.x;
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
          out[i % kQuads * items + i / kQuads] = v[k];
        }
      }
    } else if constexpr (kFloat) {
      constexpr int kItem = L::kItemWeights;
      auto* out = reinterpret_cast<float*>(to);
      for (int i = threadIdx.x; i < items * kItem; i += threads) {
        float v = i < args.cols ? x[i] : 0;
        squares += v * v;
        if (args.norm_weight && i < args.cols) v *= args.norm_weight[i];
        out[(i % kItem / 4 * items + i / kItem) * 4 + i % 4] = v;
      }
    } else {
      const auto load = [&](float(&v)[8], const float* from) {
        const float4 first = *reinterpret_cast<const float4*>(from),
                     second = *reinterpret_cast<const float4*>(from + 4);
        v[0] = first.x, v[1] = first.y, v[2] = first.z, v[3] = first.w;
        v[4] = second.x, v[5] = second.y, v[6] = second.z, v[7] = second.w;
      };
      constexpr int kBatch = 4; // loads under way together
      const int stride_x = 8 * threads;
      for (int base = 0; base < args.cols; base += kBatch * stride_x) { // cols is a multiple of 32
        const int first = base + 8 * threadIdx.x;
        float v[kBatch][8];
#pragma unroll
        for (int k = 0; k < kBatch; ++k)
          if (first + k * stride_x < args.cols) load(v[k], x + first + k * stride_x);
        if (t == 0 && base == 0) fetch_late();
#pragma unroll
        for (int k = 0; k < kBatch; ++k) {
          const int i = first + k * stride_x;
          if (i >= args.cols) break;
          const unsigned lanes = __activemask();
          if (args.norm_weight) {
            float w[8];
            if (i == 8 * threadIdx.x)
#pragma unroll
              for (int j = 0; j < 8; ++j) w[j] = first_norm[j];
            else
              load(w, args.norm_weight + i);
#pragma unroll
            for (int j = 0; j < 8; ++j) {
              squares += v[k][j] * v[k][j];
              v[k][j] *= w[j];
            }
          }
          store_integers(reinterpret_cast<uint4*>(to), items, i, v[k], lanes);
        }
      }
    }
    if (args.norm_weight) {
      squares = warp_sum(squares);
      if (lane == 0) scratch[t * warps + warp] = squares;
    }
  }
  __syncthreads();
  stamp(args.stamps, 2);
  float inverse_rms[kTokens];
#pragma unroll
  for (int t = 0; t < kTokens; ++t)
    inverse_rms[t] =
        args.norm_weight && t < tokens
            ? rsqrtf(__fdividef(warp_sum(lane < warps ? scratch[t * warps + lane] : 0), static_cast<float>(args.cols)) +
                     args.norm_epsilon)
            : 1;

  constexpr bool kHeld = kTokens * (kFloat ? L::kItemWeights : 20) <= 40; // activations stay in registers
  using Activations = std::conditional_t<kFloat, FloatItem<L::kItemWeights>, IntegerItem>;
  uint8_t* landed = my_ring;
  int parity = 0;
  do {
    // What is added to the results is fetched now, to be there by then.
    const auto residual_of = [&](int t, int row) {
      return args.residual && t < tokens ? args.residual[(first_token + t) * args.residual_stride + row] : 0;
    };
    const auto locate = [&](int result, int& row) -> const MatvecSegment& {
      const MatvecSegment& segment = compute.segment_of(result / C::kRows, row);
      row = row * C::kRows + result % C::kRows;
      return segment;
    };
    const int results = compute.result_groups * C::kRows;
    float addend[kTokens] = {};
    if (threadIdx.x < results) {
      int row;
      if (const MatvecSegment& segment = locate(threadIdx.x, row); row < segment.rows)
#pragma unroll
        for (int t = 0; t < kTokens; ++t) addend[t] = residual_of(t, row);
    }

    float* panel = panels + parity * (kPanelBytes / 4); // [tokens][units][groups][rows]
    while (compute.left > 0 || compute.next_run()) {
      const int unit_items = !kWhole && compute.unit == units - 1 ? tail_items : kUnitItems;
      const bool active = kWhole || lane < unit_items;
      const int item = compute.unit * kUnitItems + (active ? lane : 0);
      Activations held[kHeld ? kTokens : 1];
      if constexpr (kHeld)
#pragma unroll
        for (int t = 0; t < kTokens; ++t) held[t] = Activations(activations + t * token_bytes, items, item);
      const int row_bytes = unit_bytes(compute.unit); // of a chunk
      for (; compute.left > 0; compute.step()) {
        copy_async_wait<kRing - 2>();
        __syncwarp(); // the chunk has landed for all lanes, and the one before has been used by all
        fetch_next();
        float sum[kTokens][C::kRows];
#pragma unroll
        for (int j = 0; j < C::kRows; j += 2) {
          const uint8_t* unit = landed + j * row_bytes;
          const auto multiply = [&](const auto& first, const auto& second, const auto& dot) {
#pragma unroll
            for (int t = 0; t < kTokens; ++t) {
              const auto with = [&](const Activations& x) {
                sum[t][j] = active ? dot(first, x) : 0;
                sum[t][j + 1] = active ? dot(second, x) : 0;
              };
              if constexpr (kHeld)
                with(held[t]);
              else
                with(Activations(activations + t * token_bytes, items, item));
            }
          };
          if constexpr (kFloat) {
            float first[L::kItemWeights], second[L::kItemWeights];
            load_weights<Format>(first, unit, unit_items, active ? lane : 0);
            load_weights<Format>(second, unit + row_bytes, unit_items, active ? lane : 0);
            multiply(first, second, [](const auto& w, const Activations& x) { return x.dot(w); });
          } else {
            Item first, second;
            load_item<L>(first, unit, unit_items, active ? lane : 0, book);
            load_item<L>(second, unit + row_bytes, unit_items, active ? lane : 0, book);
            multiply(first, second, [](const Item& w, const Activations& x) { return item_dot<L>(w, x); });
          }
        }
#pragma unroll
        for (int t = 0; t < kTokens; ++t) {
          const float total = warp_sums(sum[t]);
          if (lane < C::kRows)
            panel[((t * units + compute.unit) * compute.groups + compute.group) * C::kRows + lane] = total;
        }
        landed = landed == my_ring + (kRing - 1) * C::kBytes ? my_ring : landed + C::kBytes;
      }
    }
    __syncthreads(); // the next panel's sums go elsewhere

    for (int i = threadIdx.x; i < results; i += threads) {
      int row;
      const MatvecSegment& segment = locate(i, row);
      if (row >= segment.rows) continue;
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        if (t >= tokens) break;
        const auto total_of = [&](const MatvecSegment& of, int at) {
          float total = 0;
#pragma unroll 4
          for (int u = 0; u < units; ++u) total += panel[(t * units + u) * compute.groups * C::kRows + at];
          return total * inverse_rms[t] + (of.bias ? of.bias[row] : 0);
        };
        float value = total_of(segment, i);
        if (args.swiglu) value = __fdividef(value, 1 + __expf(-value)) * total_of(args.segment[1], results + i);
        segment.out[(first_token + t) * segment.out_stride + row] =
            value + (i < threads ? addend[t] : residual_of(t, row));
      }
    }
    parity ^= 1;
  } while (compute.next_panel(warp, warps));
  stamp_latest(args.stamps, 3);
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
