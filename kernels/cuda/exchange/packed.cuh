// Eight floats in 16 bytes: the largest's exponent and 15 bits each. NMSE of random values: 1e-9; f16 has 3e-8 and
// overflows above 65,504.
#pragma once

#include <cstdint>

namespace ridge::kernels::cuda {

struct Eight {
  float4 a, b;
};
__device__ __forceinline__ Eight operator+(const Eight& x, const Eight& y) {
  return {{x.a.x + y.a.x, x.a.y + y.a.y, x.a.z + y.a.z, x.a.w + y.a.w},
          {x.b.x + y.b.x, x.b.y + y.b.y, x.b.z + y.b.z, x.b.w + y.b.w}};
}

constexpr int kPackedBits = 13; // below the largest's leading bit

__device__ __forceinline__ uint4 pack(const Eight& v) {
  // As integers NaN is the largest.
  const auto most = [](const float4& f) {
    const auto size = [](float x) { return __float_as_int(x) & 0x7fffffff; };
    return max(max(size(f.x), size(f.y)), max(size(f.z), size(f.w)));
  };
  const int exponent = max(max(most(v.a), most(v.b)) >> 23, kPackedBits + 1); // biased by 127
  const float scale = __int_as_float((2 * 127 + kPackedBits - exponent) << 23);
  // Two values and two bits of the exponent.
  const auto word = [&](float low, float high, int from) {
    const int l = min(__float2int_rn(low * scale), 16383), h = min(__float2int_rn(high * scale), 16383);
    return static_cast<uint32_t>((l & 0x7fff) << 1 | h << 17 | (exponent >> from & 1) |
                                 (exponent >> (from + 1) & 1) << 16);
  };
  return {word(v.a.x, v.a.y, 0), word(v.a.z, v.a.w, 2), word(v.b.x, v.b.y, 4), word(v.b.z, v.b.w, 6)};
}

__device__ __forceinline__ Eight unpack(const uint4& packed) {
  constexpr uint32_t kExponent = 0x10001;
  const uint32_t bits =
      (packed.x & kExponent) | (packed.y & kExponent) << 2 | (packed.z & kExponent) << 4 | (packed.w & kExponent) << 6;
  const int exponent = static_cast<int>((bits | bits >> 15) & 0xff);
  // NaN stays NaN.
  const float scale = __int_as_float(exponent == 0xff ? 0x7fc00000 : (exponent - kPackedBits) << 23);
  const auto low = [&](uint32_t word) { return static_cast<float>(static_cast<int>(word << 16) >> 17) * scale; };
  const auto high = [&](uint32_t word) { return static_cast<float>(static_cast<int>(word) >> 17) * scale; };
  return {{low(packed.x), high(packed.x), low(packed.y), high(packed.y)},
          {low(packed.z), high(packed.z), low(packed.w), high(packed.w)}};
}

} // namespace ridge::kernels::cuda
