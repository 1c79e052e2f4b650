// y = W x for one to four rows of activations at a time: the kernel of decoding.
//
// Each warp works on whole rows. It fetches their units into a ring in shared memory, several units ahead, with 16-byte
// asynchronous copies; so the bytes in flight do not depend on registers or on how soon the arithmetic is done, and the
// first units are on their way before the activations exist. Each lane then takes one item of a landed unit: 32 codes
// times 32 activations.
//
// Activations are integers for this: x ≈ s · (128 · high + low), one scale s per 32, 15 bits, high and low in bytes, so
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

namespace ridge::kernels::cuda {

inline constexpr int kMatvecWarps = 16, kMatvecThreads = kMatvecWarps * kWarp;

// Ring slots per warp: enough that a warp has about 3 KB on their way, 48 KB per multiprocessor.
template <typename Format>
inline constexpr int kStages = (3200 + Units<Format>::kBytes - 1) / Units<Format>::kBytes + 1 > 8
                                   ? 8
                                   : (3200 + Units<Format>::kBytes - 1) / Units<Format>::kBytes + 1;

template <typename Format, bool kExact>
inline constexpr bool kFloatDots = kExact || quant::FloatFormat<Format>;

// Shared memory of the activations of one token.
//   integers: 64 bytes per group of 32, as four planes of 16 bytes per group (high 0-15, high 16-31, low 0-15, low
//   16-31), then per group its scale and the sums of its two halves;
//   floats: planes of 4 values per item, so that the lanes' 16-byte reads lie side by side.
template <typename Format, bool kExact>
constexpr int64_t activation_bytes(int64_t cols) {
  const int64_t items = Units<Format>::items_of(cols);
  return kFloatDots<Format, kExact> ? items * Layout<Format>::kItemWeights * 4 : items * (64 + 12);
}

template <typename Format, bool kExact>
constexpr int64_t matvec_shared_bytes(int64_t cols, int tokens) {
  return int64_t{kMatvecWarps} * kStages<Format> * Units<Format>::kBytes +
         tokens * (activation_bytes<Format, kExact>(cols) + 16) + kMatvecWarps * 4 + 16;
}

struct IntegerActivations {
  uint4* plane;  // [4][groups]
  float* scale;  // [groups]
  float* sum;    // [2][groups]

  __device__ IntegerActivations(uint8_t* base, int groups)
      : plane(reinterpret_cast<uint4*>(base)),
        scale(reinterpret_cast<float*>(base + 64 * groups)), sum(scale + groups) {}
};

// Eight values of a group of 32 that four neighbouring lanes hold -> shared memory.
__device__ __forceinline__ void store_integers(const IntegerActivations& to, int groups, int first, const float (&v)[8],
                                               unsigned lanes) {
  constexpr float kMax = 127 * 128;
  float largest = 0;
#pragma unroll
  for (float value : v) largest = fmaxf(largest, fabsf(value));
  largest = fmaxf(largest, __shfl_xor_sync(lanes, largest, 1));
  largest = fmaxf(largest, __shfl_xor_sync(lanes, largest, 2));
  const float inverse = largest > 0 ? kMax / largest : 0;
  uint32_t high[2] = {0, 0}, low[2] = {0, 0};
  int total = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int q = __float2int_rn(v[i] * inverse);
    const int h = (q + 64) >> 7, l = q - h * 128;
    high[i / 4] |= static_cast<uint32_t>(h & 255) << (8 * (i % 4));
    low[i / 4] |= static_cast<uint32_t>(l & 255) << (8 * (i % 4));
    total += q;
  }
  total += __shfl_xor_sync(lanes, total, 1);
  const int group = first / 32, half = first / 16 % 2, part = first / 8 % 2;
  auto* planes = reinterpret_cast<uint2*>(to.plane);
  planes[2 * (half * groups + group) + part] = {high[0], high[1]};
  planes[2 * ((2 + half) * groups + group) + part] = {low[0], low[1]};
  if (part == 0) to.sum[half * groups + group] = static_cast<float>(total);
  if (part == 0 && half == 0) to.scale[group] = largest / kMax;
}

__device__ __forceinline__ int dot16(const uint32_t* codes, const uint4& x, int sum) {
  sum = __dp4a(static_cast<int>(codes[0]), static_cast<int>(x.x), sum);
  sum = __dp4a(static_cast<int>(codes[1]), static_cast<int>(x.y), sum);
  sum = __dp4a(static_cast<int>(codes[2]), static_cast<int>(x.z), sum);
  return __dp4a(static_cast<int>(codes[3]), static_cast<int>(x.w), sum);
}

// Σ weight · activation over an item.
template <typename L>
__device__ __forceinline__ float item_dot(const Item& w, const IntegerActivations& x, int groups, int group) {
  const uint4 high0 = x.plane[group], high1 = x.plane[groups + group];
  const uint4 low0 = x.plane[2 * groups + group], low1 = x.plane[3 * groups + group];
  float result;
  if constexpr (L::kHalfScales) {
    const int first = dot16(w.word, high0, 0) * 128 + dot16(w.word, low0, 0);
    const int second = dot16(w.word + 4, high1, 0) * 128 + dot16(w.word + 4, low1, 0);
    result = w.scale[0] * static_cast<float>(first) + w.scale[1] * static_cast<float>(second);
    if constexpr (L::kHasOffset || L::kBias != 0) {
      result += (w.offset[0] - w.scale[0] * static_cast<float>(L::kBias)) * x.sum[group] +
                (w.offset[1] - w.scale[1] * static_cast<float>(L::kBias)) * x.sum[groups + group];
    }
  } else {
    const int dot =
        dot16(w.word + 4, high1, dot16(w.word, high0, 0)) * 128 + dot16(w.word + 4, low1, dot16(w.word, low0, 0));
    result = w.scale[0] * static_cast<float>(dot);
    if constexpr (L::kHasOffset || L::kBias != 0)
      result += (w.offset[0] - w.scale[0] * static_cast<float>(L::kBias)) * (x.sum[group] + x.sum[groups + group]);
  }
  return result * x.scale[group];
}

template <typename Format, int kTokens, bool kExact>
__global__ void __launch_bounds__(kMatvecThreads) matvec_kernel(const __grid_constant__ MatvecArgs args) {
  using L = Layout<Format>;
  using U = Units<Format>;
  constexpr bool kFloat = kFloatDots<Format, kExact>;
  constexpr int kSlots = kStages<Format>;
  extern __shared__ uint4 shared[];
  auto* ring = reinterpret_cast<uint8_t*>(shared);
  uint8_t* activations = ring + kMatvecWarps * kSlots * U::kBytes;
  const int items = static_cast<int>(U::items_of(args.cols));
  const int64_t token_bytes = (activation_bytes<Format, kExact>(args.cols) + 15) / 16 * 16;
  auto* scratch = reinterpret_cast<float*>(activations + kTokens * token_bytes); // a float per warp

  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int first_token = blockIdx.y * kTokens;
  const int tokens = min(kTokens, args.tokens - first_token);
  let_successor_start();

  // This warp's rows: `warp_index`, + stride, … of all segments in sequence. With swiglu a row is the gate's row, then
  // up's.
  const int stride = gridDim.x * kMatvecWarps, warp_index = warp * gridDim.x + blockIdx.x;
  const int passes = args.swiglu ? 2 : 1;
  int total_rows = 0;
  if (args.swiglu)
    total_rows = args.segment[0].rows;
  else
    for (int s = 0; s < args.segments; ++s) total_rows += args.segment[s].rows;
  const int my_rows = warp_index < total_rows ? (total_rows - warp_index - 1) / stride + 1 : 0;
  const int units = (items + kUnitItems - 1) / kUnitItems, tail_items = items - (units - 1) * kUnitItems;
  const int total_units = my_rows * passes * units;

  int64_t expert_offset = 0;
  if (args.ids) {
    wait_for_predecessor();
    expert_offset = args.ids[first_token] * args.expert_bytes;
  }
  const auto find_segment = [&](int row, int pass, int& row_in) {
    int s = pass;
    while (!args.swiglu && row >= args.segment[s].rows) row -= args.segment[s++].rows;
    row_in = row;
    return s;
  };

  // The fetching side runs kSlots - 1 units ahead of the computing side.
  int fetch_row = warp_index, fetch_pass = 0, fetch_unit = 0, fetched = 0;
  const uint8_t* fetch_from = nullptr;
  uint8_t* const my_ring = ring + warp * kSlots * U::kBytes;
  const int tail_bytes = U::rounded(L::unit_payload(tail_items));
  const auto fetch_next = [&] {
    if (fetched < total_units) {
      if (fetch_unit == 0) {
        int row;
        const MatvecSegment& segment = args.segment[find_segment(fetch_row, fetch_pass, row)];
        fetch_from = segment.weights + expert_offset + row * args.row_bytes;
      }
      const bool last = fetch_unit == units - 1;
      const int bytes = last ? tail_bytes : U::kBytes;
      uint8_t* to = my_ring + fetched % kSlots * U::kBytes;
#pragma unroll
      for (int at = 0; at < U::kBytes; at += 16 * kWarp)
        if (at + 16 * lane < bytes) copy_async_16(to + at + 16 * lane, fetch_from + at + 16 * lane);
      fetch_from += U::kBytes;
      ++fetched;
      if (++fetch_unit == units) {
        fetch_unit = 0;
        if (++fetch_pass == passes) fetch_pass = 0, fetch_row += stride;
      }
    }
    copy_async_commit(); // also when there is nothing left, so that counts stay in step
  };
  for (int s = 0; s < kSlots - 1; ++s) fetch_next();

  // Bring in the activations.
  wait_for_predecessor();
  float inverse_rms[kTokens];
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    inverse_rms[t] = 1;
    if (t >= tokens) continue;
    const int64_t token = first_token + t;
    const float* x = args.x + (args.ids && !args.x_per_slot ? token / args.slots : token) * args.x_stride;
    uint8_t* to = activations + t * token_bytes;
    float squares = 0;
    if constexpr (kFloat) {
      constexpr int kItem = L::kItemWeights;
      auto* out = reinterpret_cast<float*>(to);
      for (int i = threadIdx.x; i < items * kItem; i += kMatvecThreads) {
        float v = i < args.cols ? x[i] : 0;
        squares += v * v;
        if (args.norm_weight && i < args.cols) v *= args.norm_weight[i];
        out[(i % kItem / 4 * items + i / kItem) * 4 + i % 4] = v;
      }
    } else {
      const IntegerActivations out(to, items);
      for (int i = 8 * threadIdx.x; i < args.cols; i += 8 * kMatvecThreads) { // cols is a multiple of 32
        const unsigned lanes = __activemask();
        const float4 first = *reinterpret_cast<const float4*>(x + i), second = *reinterpret_cast<const float4*>(x + i + 4);
        float v[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
        if (args.norm_weight) {
          const float4 w0 = *reinterpret_cast<const float4*>(args.norm_weight + i);
          const float4 w1 = *reinterpret_cast<const float4*>(args.norm_weight + i + 4);
          const float w[8] = {w0.x, w0.y, w0.z, w0.w, w1.x, w1.y, w1.z, w1.w};
#pragma unroll
          for (int k = 0; k < 8; ++k) {
            squares += v[k] * v[k];
            v[k] *= w[k];
          }
        }
        store_integers(out, items, i, v, lanes);
      }
    }
    if (args.norm_weight)
      inverse_rms[t] = rsqrtf(block_sum(squares, scratch) / static_cast<float>(args.cols) + args.norm_epsilon);
  }
  __syncthreads();

  float sum[kTokens], gate[kTokens];
#pragma unroll
  for (int t = 0; t < kTokens; ++t) sum[t] = gate[t] = 0;
  int row = warp_index, pass = 0, unit = 0;
  for (int u = 0; u < total_units; ++u) {
    copy_async_wait<kSlots - 2>();
    __syncwarp(); // unit u has landed for all lanes, and unit u - 1 has been used by all
    fetch_next();
    const int unit_items = unit == units - 1 ? tail_items : kUnitItems;
    const uint8_t* landed = my_ring + u % kSlots * U::kBytes;
    if (lane < unit_items) {
      const int item = unit * kUnitItems + lane;
      if constexpr (kFloat) {
        float w[L::kItemWeights];
        load_weights<Format>(w, landed, unit_items, lane);
#pragma unroll
        for (int t = 0; t < kTokens; ++t) {
          const auto* x = reinterpret_cast<const float4*>(activations + t * token_bytes) + item;
#pragma unroll
          for (int k = 0; k < L::kItemWeights; k += 4) {
            const float4 v = x[k / 4 * items];
            sum[t] += w[k] * v.x + w[k + 1] * v.y + w[k + 2] * v.z + w[k + 3] * v.w;
          }
        }
      } else {
        Item w;
        L::load(w, landed, unit_items, lane);
#pragma unroll
        for (int t = 0; t < kTokens; ++t)
          sum[t] += item_dot<L>(w, IntegerActivations(activations + t * token_bytes, items), items, item);
      }
    }
    if (++unit < units) continue;
    unit = 0;

    // The row is complete.
    int row_in;
    const int s = find_segment(row, pass, row_in);
    const MatvecSegment& segment = args.segment[s];
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      float value = warp_sum(sum[t]) * inverse_rms[t];
      sum[t] = 0;
      if (segment.bias) value += segment.bias[row_in];
      if (pass + 1 < passes) {
        gate[t] = value;
        continue;
      }
      if (args.swiglu) value *= gate[t] / (1 + __expf(-gate[t]));
      if (lane == 0 && t < tokens) {
        const int64_t token = first_token + t;
        const MatvecSegment& to = args.swiglu ? args.segment[0] : segment;
        if (args.residual) value += args.residual[token * args.residual_stride + row_in];
        to.out[token * to.out_stride + row_in] = value;
      }
    }
    if (++pass == passes) pass = 0, row += stride;
  }
}

} // namespace ridge::kernels::cuda
