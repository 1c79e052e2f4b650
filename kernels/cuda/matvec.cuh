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

// A warp takes its rows in steps: a unit of either row, or two where rows are whole units so small that the loop around
// them would cost half as many instructions as they do (H200, 2026-11-20: 4 % for Q4_K, 8 % for TQ2_0).
//
// Its ring has slots of a step each, enough for 3 KB on their way, 48 KB per multiprocessor. The formats with large
// units, whose arithmetic is light, gain from twice that (Q8_0 4 %, F16 1 %; Q4_K loses 4 %).
template <typename Format, bool kWhole>
struct Steps {
  static constexpr int kUnitBytes = Units<Format>::kBytes;
  static constexpr int kUnits = kWhole && kUnitBytes <= 900 ? 2 : 1;
  static constexpr int kRowBytes = kUnits * kUnitBytes, kSlotBytes = 2 * kRowBytes;
#ifndef RIDGE_RING
#define RIDGE_RING 3200
#endif
  static constexpr int kInFlight = kUnitBytes >= 1024 && RIDGE_RING < 6400 ? 6400 : RIDGE_RING;
  static constexpr int kSlots =
      std::clamp((kInFlight + kSlotBytes - 1) / kSlotBytes + 1, 3, std::max(3, 11900 / kSlotBytes));
};

template <typename Format, bool kExact>
inline constexpr bool kFloatDots = kExact || quant::FloatFormat<Format>;

// Shared memory of the activations of one token.
//   integers: 84 bytes per group of 32, as four planes of 16 bytes per group (high 0-15, high 16-31, low 0-15, low
//   16-31) and five of 4 bytes (its scale s, the sums of its first half, of its second half, of all, s times that);
//   floats: planes of 4 values per item, so that the lanes' 16-byte reads lie side by side.
template <typename Format, bool kExact>
constexpr int64_t activation_bytes(int64_t cols) {
  const int64_t items = Units<Format>::items_of(cols);
  return kFloatDots<Format, kExact> ? items * Layout<Format>::kItemWeights * 4 : items * 84;
}

// The table of codebook points, which the dots of packed weights look up in shared memory.
template <typename Format, bool kExact>
inline constexpr int kBookBytes = kFloatDots<Format, kExact> ? 0 : Layout<Format>::Book::kBytes;

template <typename Format, bool kExact, bool kWhole>
constexpr int64_t matvec_shared_bytes(int64_t cols, int tokens, int warps) {
  using S = Steps<Format, kWhole>;
  return kBookBytes<Format, kExact> + int64_t{warps} * (S::kSlots * S::kSlotBytes + 4 * tokens) +
         tokens * (activation_bytes<Format, kExact>(cols) + 16) + 16;
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
  const float scale = largest * (1 / kMax);
  auto* rest = reinterpret_cast<float*>(to + 4 * groups) + group;
  const int all = total + other_half;
  rest[(2 * half + part) * groups] = half == part ? half == 0 ? scale : __int_as_float(all) : __int_as_float(total);
  if (half == 0 && part == 0) rest[4 * groups] = scale * static_cast<float>(all);
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
  float scale, scaled_sum;
  int sum[2], all;

  __device__ __forceinline__ IntegerItem(const uint8_t* activations, int groups, int group) {
    const auto* planes = reinterpret_cast<const uint4*>(activations) + group;
    high[0] = planes[0];
    high[1] = planes[groups];
    low[0] = planes[2 * groups];
    low[1] = planes[3 * groups];
    const auto* rest = reinterpret_cast<const float*>(activations + 64 * groups) + group;
    scale = rest[0];
    sum[0] = __float_as_int(rest[groups]);
    sum[1] = __float_as_int(rest[2 * groups]);
    all = __float_as_int(rest[3 * groups]);
    scaled_sum = rest[4 * groups];
  }
};

// Σ weight · activation over an item. Integers as long as they fit: codes' bias goes where the sums begin, scales of
// 16 that are products of small integers are multiplied before anything becomes a float.
template <typename L>
__device__ __forceinline__ float item_dot(const Item& w, const IntegerItem& x) {
  if constexpr (L::kHalfScales) {
    int dot[2];
#pragma unroll
    for (int h = 0; h < 2; ++h)
      dot[h] = dot16(w.word + 4 * h, x.high[h], 0) * kHighWorth + dot16(w.word + 4 * h, x.low[h], -L::kBias * x.sum[h]);
    float result;
    if constexpr (L::kFactors)
      result = w.unit * static_cast<float>(dot[0] * w.factor[0] + dot[1] * w.factor[1]);
    else
      result = w.scale[0] * static_cast<float>(dot[0]) + w.scale[1] * static_cast<float>(dot[1]);
    if constexpr (L::kHasOffset && L::kFactors)
      result += w.offset_unit * static_cast<float>(w.offset_factor[0] * x.sum[0] + w.offset_factor[1] * x.sum[1]);
    else if constexpr (L::kHasOffset)
      result += w.offset[0] * static_cast<float>(x.sum[0]) + w.offset[1] * static_cast<float>(x.sum[1]);
    return result * x.scale;
  } else {
    const int high = dot16(w.word + 4, x.high[1], dot16(w.word, x.high[0], 0)),
              low = dot16(w.word + 4, x.low[1], dot16(w.word, x.low[0], -L::kBias * x.all));
    const int dot = high * kHighWorth + low;
    float result;
    if constexpr (L::kFactors)
      result = w.unit * (static_cast<float>(dot * w.factor[0]) * x.scale);
    else
      result = w.scale[0] * (static_cast<float>(dot) * x.scale);
    if constexpr (L::kHasOffset) result += w.offset[0] * x.scaled_sum;
    return result;
  }
}

// The work of block `block` of `blocks`. kWhole: rows are whole units, so that where a lane's item lies is known to the
// compiler.
template <typename Format, int kTokens, bool kExact, bool kWhole>
__device__ __forceinline__ void multiply_rows(const MatvecArgs& args, int block, int blocks) {
  using L = Layout<Format>;
  using U = Units<Format>;
  constexpr bool kFloat = kFloatDots<Format, kExact>;
  using S = Steps<Format, kWhole>;
  constexpr int kRing = S::kSlots;
  const int threads = blockDim.x, warps = threads / kWarp;
  extern __shared__ uint4 shared[];
  auto* book_words = reinterpret_cast<uint8_t*>(shared);
  uint8_t* ring = book_words + kBookBytes<Format, kExact>;
  uint8_t* activations = ring + warps * kRing * S::kSlotBytes;
  const int items = static_cast<int>(U::items_of(args.cols));
  const int token_bytes = static_cast<int>((activation_bytes<Format, kExact>(args.cols) + 15) / 16 * 16);
  auto* scratch = reinterpret_cast<float*>(activations + kTokens * token_bytes); // per token a float per warp

  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int first_token = blockIdx.y * kTokens;
  const int tokens = min(kTokens, args.tokens - first_token);
  let_successor_start();
  stamp(args.stamps, 0);

  // This warp's pairs of rows: pair `first_pair`, + stride, … A pair is rows 2p and 2p + 1 of all segments in sequence,
  // or with swiglu row p of the gate and row p of up.
  const int stride = blocks * warps, first_pair = warp * blocks + block;
  int total_rows = args.segment[0].rows;
  for (int s = 1; s < args.segments && !args.swiglu; ++s) total_rows += args.segment[s].rows;
  const int pairs = args.swiglu ? total_rows : (total_rows + 1) / 2;
  const int my_pairs = first_pair < pairs ? (pairs - first_pair - 1) / stride + 1 : 0;
  const int units = (items + kUnitItems - 1) / kUnitItems;
  const int tail_items = kWhole ? kUnitItems : items - (units - 1) * kUnitItems;
  const int steps = (units + S::kUnits - 1) / S::kUnits;
  // Segment and row in it of a pair's first or second row; where there is no second, the first again.
  const auto locate = [&](int pair, int second, int& row) -> const MatvecSegment& {
    if (args.swiglu) {
      row = pair;
      return args.segment[second];
    }
    row = min(2 * pair + second, total_rows - 1);
    int s = 0;
    while (row >= args.segment[s].rows) row -= args.segment[s++].rows;
    return args.segment[s];
  };

  int64_t expert_offset = 0;
  if (args.ids) {
    wait_for_predecessor();
    expert_offset = args.ids[first_token] * args.expert_bytes;
  }

  // The fetching side runs kRing - 1 steps ahead of the computing side.
  int fetch_pair = first_pair, fetch_step = 0, fetch_left = my_pairs * steps;
  const uint8_t *fetch_first = nullptr, *fetch_second = nullptr;
  uint8_t* const my_ring = ring + warp * kRing * S::kSlotBytes;
  uint8_t* fetch_to = my_ring;
  const int tail_bytes = (units - 1) % S::kUnits * U::kBytes + U::rounded(L::unit_payload(tail_items));
  const auto fetch_next = [&] {
    if (fetch_left > 0) {
      --fetch_left;
      if (fetch_step == 0) {
        int row;
        const MatvecSegment& first = locate(fetch_pair, 0, row);
        fetch_first = first.weights + expert_offset + row * args.row_bytes + 16 * lane;
        const MatvecSegment& second = locate(fetch_pair, 1, row);
        fetch_second = second.weights + expert_offset + row * args.row_bytes + 16 * lane;
      }
      const int bytes = (!kWhole || S::kUnits > 1) && fetch_step == steps - 1 ? tail_bytes : S::kRowBytes;
#pragma unroll
      for (int at = 0; at < S::kRowBytes; at += 16 * kWarp)
        if (at + 16 * lane < bytes) {
          copy_async_16(fetch_to + at + 16 * lane, fetch_first + at);
          copy_async_16(fetch_to + S::kRowBytes + at + 16 * lane, fetch_second + at);
        }
      fetch_first += S::kRowBytes;
      fetch_second += S::kRowBytes;
      fetch_to = fetch_to == my_ring + (kRing - 1) * S::kSlotBytes ? my_ring : fetch_to + S::kSlotBytes;
      if (++fetch_step == steps) fetch_step = 0, fetch_pair += stride;
    }
    copy_async_commit(); // also when there is nothing left, so that counts stay in step
  };
  using Book = std::conditional_t<kFloat, NoBook, typename L::Book>;
  const typename Book::template Filler<kMatvecThreads> filler(threadIdx.x); // before the weights stand in its way
  const int early = min(args.early, kRing - 1);
#pragma unroll 1
  for (int s = 0; s < early; ++s) fetch_next();
  bool late = true;
  const auto fetch_late = [&] {
    if (!late) return;
    late = false;
#pragma unroll 1
    for (int s = early; s < kRing - 1; ++s) fetch_next();
  };
  filler.store(book_words);
  for (int t = threadIdx.x + threads; t < kMatvecThreads; t += threads) // the shares of warps that there is no room for
    typename Book::template Filler<kMatvecThreads>(t).store(book_words);
  const Book book(book_words);

  // Bring in the activations. The weights of the norm are constant: they can be near by then.
  if (args.norm_weight)
    for (int i = 8 * threadIdx.x; i < args.cols; i += 8 * threads) prefetch_l2(args.norm_weight + i);
  constexpr bool kKeepNorm = !kFloat;
  float first_norm[8];
  if (kKeepNorm && args.norm_weight && 8 * threadIdx.x < args.cols) {
    const auto* w = reinterpret_cast<const float4*>(args.norm_weight + 8 * threadIdx.x);
    *reinterpret_cast<float4*>(first_norm) = w[0];
    *reinterpret_cast<float4*>(first_norm + 4) = w[1];
  }
  wait_for_predecessor();
  stamp(args.stamps, 1);
  float inverse_rms[kTokens];
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    inverse_rms[t] = 1;
    if (t >= tokens) continue;
    const int64_t token = first_token + t;
    const float* x = args.x + (args.ids && !args.x_per_slot ? token / args.slots : token) * args.x_stride;
    uint8_t* to = activations + t * token_bytes;
    float squares = 0;
    if constexpr (kFloat && kWhole) {
      constexpr int kQuads = L::kItemWeights / 4, kBatch = 8; // loads under way together
      auto* out = reinterpret_cast<float4*>(to);
      const int quads = args.cols / 4;
      for (int first = threadIdx.x; first < quads; first += kBatch * threads) {
        float4 v[kBatch];
#pragma unroll
        for (int k = 0; k < kBatch; ++k)
          if (first + k * threads < quads) v[k] = reinterpret_cast<const float4*>(x)[first + k * threads];
        fetch_late();
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
      for (int first = 8 * threadIdx.x; first < args.cols; first += kBatch * stride_x) { // cols is a multiple of 32
        float v[kBatch][8];
#pragma unroll
        for (int k = 0; k < kBatch; ++k)
          if (first + k * stride_x < args.cols) load(v[k], x + first + k * stride_x);
        fetch_late();
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
  fetch_late();
  __syncthreads();
  stamp(args.stamps, 2);
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    if (!args.norm_weight || t >= tokens) continue;
    float squares = 0;
    for (int w = 0; w < warps; ++w) squares += scratch[t * warps + w];
    inverse_rms[t] = rsqrtf(squares / static_cast<float>(args.cols) + args.norm_epsilon);
  }

  const uint8_t* landed = my_ring;
  for (int pair = first_pair; pair < pairs; pair += stride) {
    float sum[2][kTokens];
#pragma unroll
    for (int t = 0; t < kTokens; ++t) sum[0][t] = sum[1][t] = 0;
    // Lane r finishes row r of the pair; what it adds to the result is fetched now, to be there by then.
    int row;
    const MatvecSegment& segment = locate(pair, lane & 1, row);
    const bool finishes = lane < (args.swiglu || 2 * pair + 1 == total_rows ? 1 : 2);
    float addend[kTokens];
    const float bias = lane < 2 && segment.bias ? segment.bias[row] : 0;
#pragma unroll
    for (int t = 0; t < kTokens; ++t)
      addend[t] =
          finishes && args.residual && t < tokens ? args.residual[(first_token + t) * args.residual_stride + row] : 0;

    for (int step = 0; step < steps; ++step) {
      copy_async_wait<kRing - 2>();
      __syncwarp(); // the step has landed for all lanes, and the one before has been used by all
      fetch_next();
#pragma unroll
      for (int u = 0; u < S::kUnits; ++u) {
        const int unit = step * S::kUnits + u;
        const int unit_items = !kWhole && unit == units - 1 ? tail_items : kUnitItems;
        if ((u > 0 && unit >= units) || (!kWhole && lane >= unit_items)) break;
        const int item = unit * kUnitItems + lane;
        const uint8_t *first_unit = landed + u * U::kBytes, *second_unit = first_unit + S::kRowBytes;
        if constexpr (kFloat) {
          float first[L::kItemWeights], second[L::kItemWeights];
          load_weights<Format>(first, first_unit, unit_items, lane);
          load_weights<Format>(second, second_unit, unit_items, lane);
#pragma unroll
          for (int t = 0; t < kTokens; ++t) {
            const auto* x = reinterpret_cast<const float4*>(activations + t * token_bytes) + item;
#pragma unroll
            for (int k = 0; k < L::kItemWeights; k += 4) {
              const float4 v = x[k / 4 * items];
              sum[0][t] += first[k] * v.x + first[k + 1] * v.y + first[k + 2] * v.z + first[k + 3] * v.w;
              sum[1][t] += second[k] * v.x + second[k + 1] * v.y + second[k + 2] * v.z + second[k + 3] * v.w;
            }
          }
        } else {
          Item first, second;
          load_item<L>(first, first_unit, unit_items, lane, book);
          load_item<L>(second, second_unit, unit_items, lane, book);
#pragma unroll
          for (int t = 0; t < kTokens; ++t) {
            const IntegerItem x(activations + t * token_bytes, items, item);
            sum[0][t] += item_dot<L>(first, x);
            sum[1][t] += item_dot<L>(second, x);
          }
        }
      }
      landed = landed == my_ring + (kRing - 1) * S::kSlotBytes ? my_ring : landed + S::kSlotBytes;
    }

#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      // Even lanes sum the first row, odd lanes the second.
      const float mine = lane & 1 ? sum[1][t] : sum[0][t], others = lane & 1 ? sum[0][t] : sum[1][t];
      float total = mine + __shfl_xor_sync(~0u, others, 1);
      for (int offset = 2; offset < kWarp; offset *= 2) total += __shfl_xor_sync(~0u, total, offset);
      float value = total * inverse_rms[t] + bias;
      if (args.swiglu) {
        const float up = __shfl_sync(~0u, value, 1);
        value = value / (1 + __expf(-value)) * up;
      }
      if (finishes && t < tokens) segment.out[(first_token + t) * segment.out_stride + row] = value + addend[t];
    }
  }
  __syncwarp();
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
