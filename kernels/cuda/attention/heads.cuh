// Norm, rope and storing of one q, k or v head.
#pragma once

#include "core/rope_angle.h"
#include "kernels/cuda/attention/cached_rows.cuh"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/ptx.cuh"
#include "quant/cache_codes.h"

namespace ridge::kernels::cuda {

__device__ __forceinline__ float magnitude_of(float value) { return value == value ? fabsf(value) : INFINITY; }

// Where a layer stores keys or values.
struct CacheTarget {
  void* data;
  core::KvType type;
  CachedBlocks blocks;
};
__device__ __forceinline__ CacheTarget key_target(const Cache& cache) {
  return {cache.k, cache.k_type, cache.k_blocks};
}
__device__ __forceinline__ CacheTarget value_target(const Cache& cache) {
  return {cache.v, cache.v_type, cache.v_blocks};
}

// A warp takes 32 elements with their scale; bit-identical to the CPU.
__device__ __forceinline__ void store_codes(const float* x, int dim, int64_t at, const CacheTarget& to, int warp,
                                            int warps) {
  const int lane = threadIdx.x % kWarp;
  for (int block = warp; block < dim / kWarp; block += warps) {
    float each[] = {x[block * kWarp + lane]};
    if (core::is_rotated(to.type)) rotate_lanes(each);
    const float value = each[0];
    const float largest = warp_reduce(value == value ? value : INFINITY, [](float a, float b) { return fmaxf(a, b); }),
                smallest =
                    warp_reduce(value == value ? value : -INFINITY, [](float a, float b) { return fminf(a, b); });
    const quant::CacheCode code(to.type, smallest, largest);
    const int own = code(value);
    const int64_t first = at + block * kWarp;
    if (to.type == core::KvType::q8_0) {
      static_cast<int8_t*>(to.data)[first + lane] = static_cast<int8_t>(own);
    } else {
      const int pair = lane % 8 / 2, odd = lane % 2;
      uint32_t nibbles = static_cast<uint32_t>(own & 15) << (4 * pair + 16 * odd),
               high_bits = static_cast<uint32_t>(own >> 4) << (pair + 4 * odd);
      for (int lanes = 1; lanes < 8; lanes *= 2) {
        nibbles |= __shfl_xor_sync(~0u, nibbles, lanes);
        high_bits |= __shfl_xor_sync(~0u, high_bits, lanes);
      }
      if (lane % 8 == 0) {
        static_cast<uint32_t*>(to.data)[(first + lane) / 8] = nibbles;
        if (to.blocks.high_bits) to.blocks.high_bits[(first + lane) / 8] = static_cast<uint8_t>(high_bits);
      }
    }
    if (lane == 0) {
      to.blocks.scales[first / kWarp] = code.scale;
      if (to.blocks.minima) to.blocks.minima[first / kWarp] = code.minimum;
    }
  }
}

// Stores in a cache of any type. `warp`: this thread's of `warps`; `at`: index of the first element. Heads of types
// that rotate are already rotated.
__device__ __forceinline__ void store_head(const float* x, int dim, int64_t at, const CacheTarget& to, int warp,
                                           int warps) {
  if (to.blocks.scales) return store_codes(x, dim, at, to, warp, warps);
  for (int i = warp * kWarp + threadIdx.x % kWarp; i < dim; i += warps * kWarp) {
    if (to.type == core::KvType::f16)
      static_cast<__half*>(to.data)[at + i] = __float2half_rn(x[i]);
    else if (to.type == core::KvType::bf16)
      static_cast<uint16_t*>(to.data)[at + i] = core::bf16_from_f32(x[i]);
    else
      static_cast<float*>(to.data)[at + i] = x[i];
  }
}

__device__ __forceinline__ float2 rope_cos_sin(float inverse_frequency, int position, float magnitude) {
  float sine, cosine;
  sincosf(core::rope_angle(position, inverse_frequency), &sine, &cosine);
  return {cosine * magnitude, sine * magnitude};
}
__device__ __forceinline__ float2 rope_cos_sin(const RopeArgs& rope, int pair, int token, int position) {
  return rope_cos_sin(rope.inverse_frequency[pair], rope.place_of(pair, token, position), rope.magnitude);
}

__device__ __forceinline__ void rotate_pair(float& a, float& b, float2 angle) {
  const float x = a, y = b;
  a = x * angle.x - y * angle.y;
  b = x * angle.y + y * angle.x;
}

// A lane's quad n of every kLanes quads: two elements from `low` and two from `high`, the pairs 2 n and 2 n + 1 of a
// rotation. Behind a partial rotation of split pairs: four neighbouring elements.
template <int kDim>
struct Quad {
  static constexpr int kLanes = kDim < 128 ? kDim / 4 : kWarp, kPerLane = kDim / 4 / kLanes;
  static constexpr bool kPartialRope = kDim > 128;
  int number, low, high;
  bool split, any_split; // this quad's pairs are split; some quad's are
  __device__ __forceinline__ explicit Quad(bool split_pairs, int pairs, int of_lane) : any_split(split_pairs) {
    number = static_cast<int>(threadIdx.x) % kLanes + kLanes * of_lane;
    split = split_pairs && (!kPartialRope || 2 * number < pairs);
    low = split ? 2 * number : 4 * number;
    high = split ? (kPartialRope ? pairs : kDim / 2) + 2 * number : 4 * number + 2;
  }
  // Quads hold whole pairs and, for codes, whole blocks of 32.
  static bool takes(const RopeArgs& rope, bool codes) {
    return !rope.split || (kPartialRope ? rope.pairs % (codes ? 32 : 2) == 0 : 2 * rope.pairs == kDim);
  }
  __device__ __forceinline__ float4 load(const float* x) const {
    const float2 a = *reinterpret_cast<const float2*>(x + low), b = *reinterpret_cast<const float2*>(x + high);
    return {a.x, a.y, b.x, b.y};
  }
  __device__ __forceinline__ float4 load_latest(const float* x) const {
    const float2 a = load_latest_2(x + low), b = load_latest_2(x + high);
    return {a.x, a.y, b.x, b.y};
  }
  __device__ __forceinline__ void store(__half* to, float4 x) const {
    *reinterpret_cast<uint32_t*>(to + low) = pack_half2(x.x, x.y);
    *reinterpret_cast<uint32_t*>(to + high) = pack_half2(x.z, x.w);
  }
  __device__ __forceinline__ void store(float* to, float4 x) const {
    *reinterpret_cast<float2*>(to + low) = {x.x, x.y};
    *reinterpret_cast<float2*>(to + high) = {x.z, x.w};
  }
  __device__ __forceinline__ void rotate(float4& x, float2 first, float2 second) const {
    if (split) {
      rotate_pair(x.x, x.z, first);
      rotate_pair(x.y, x.w, second);
    } else {
      rotate_pair(x.x, x.y, first);
      rotate_pair(x.z, x.w, second);
    }
  }
};

// For a q8_0 cache. All lanes of a warp construct it together.
struct QuadCodes {
  char2 low, high;
  uint16_t low_scale, high_scale;

  template <int kDim>
  __device__ __forceinline__ QuadCodes(float4 x, const Quad<kDim>& quad) {
    const bool split = quad.split;
    float low_most = fmaxf(magnitude_of(x.x), magnitude_of(x.y)),
          high_most = fmaxf(magnitude_of(x.z), magnitude_of(x.w));
    if (!split) low_most = high_most = fmaxf(low_most, high_most);
    for (int lanes = 1; lanes <= (quad.any_split ? 8 : 4); lanes *= 2) { // lanes that share 32 elements
      const float low_other = __shfl_xor_sync(~0u, low_most, lanes),
                  high_other = __shfl_xor_sync(~0u, high_most, lanes);
      if (Quad<kDim>::kPartialRope && lanes == 8 && !split) continue;
      low_most = fmaxf(low_most, low_other);
      high_most = fmaxf(high_most, high_other);
    }
    const quant::CacheCode low_code(core::KvType::q8_0, -low_most, low_most),
        high_code(core::KvType::q8_0, -high_most, high_most);
    const auto pair = [](const quant::CacheCode& code, float a, float b) {
      return char2{static_cast<signed char>(code(a)), static_cast<signed char>(code(b))};
    };
    low = pair(low_code, x.x, x.y);
    high = pair(high_code, x.z, x.w);
    low_scale = low_code.scale;
    high_scale = high_code.scale;
  }
  __device__ __forceinline__ float4 values() const {
    const float low_factor = __half2float(__ushort_as_half(low_scale)),
                high_factor = __half2float(__ushort_as_half(high_scale));
    return {low.x * low_factor, low.y * low_factor, high.x * high_factor, high.y * high_factor};
  }
  template <int kDim>
  __device__ __forceinline__ void store(const Quad<kDim>& quad, int8_t* to, uint16_t* scales) const {
    *reinterpret_cast<char2*>(to + quad.low) = low;
    *reinterpret_cast<char2*>(to + quad.high) = high;
    if (quad.low % 32 == 0) scales[quad.low / 32] = low_scale;
    if (quad.high % 32 == 0) scales[quad.high / 32] = high_scale;
  }
};

} // namespace ridge::kernels::cuda
