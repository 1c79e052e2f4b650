// Arithmetic of the encoders: each lane searches its own block.
//
// `Lanes` is a vector on the CPU, a float per thread on CUDA. No branches, no step across lanes, sums in the order of
// weights, no fused multiply-add: every instruction set and device gives the same bytes.
#if defined(RIDGE_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_LANES_INL_H
#undef RIDGE_LANES_INL_H
#else
#define RIDGE_LANES_INL_H
#endif

#include "core/half.h"

#ifdef __CUDACC__

#undef RIDGE_LANES_BEGIN
#undef RIDGE_LANES_END
#define RIDGE_LANES_BEGIN namespace ridge::quant::device {
#define RIDGE_LANES_END }
#define RIDGE_LANES_FN __device__ inline
#undef RIDGE_LANES_UNROLL
#define RIDGE_LANES_UNROLL

RIDGE_LANES_BEGIN

using Lanes = float;
using LanesMask = bool;
inline constexpr int kLanes = 1;

__device__ inline float select(bool condition, float a, float b) { return condition ? a : b; }
__device__ inline bool both(bool a, bool b) { return a && b; }
__device__ inline float min(float a, float b) { return a < b ? a : b; }
__device__ inline float max(float a, float b) { return a > b ? a : b; }
__device__ inline float abs(float a) { return fabsf(a); }
__device__ inline float round(float a) { return rintf(a); }
__device__ inline float floor_power_of_two(float a) { return __uint_as_float(__float_as_uint(a) & 0x7f800000u); }

using LanesInt = int;
__device__ inline bool all(bool a) { return a; }
__device__ inline bool any(bool a) { return a; }
__device__ inline float to_float(int a) { return static_cast<float>(a); }
__device__ inline int low_bits(float a) { return __float_as_int(a + 12582912.0f); }

// On CUDA in shared memory, one bank per thread: the tables of a multiprocessor would not fit its cache. Blocks have
// kTableThreads threads and room for all tables used together.
inline constexpr int kTableThreads = 32;
extern __shared__ float table_memory[];

template <int kSize, int kPlace>
struct LanesTable {
  __device__ float& operator[](int i) const { return table_memory[(kPlace + i) * kTableThreads + threadIdx.x]; }
};

RIDGE_LANES_END

#else

#include <hwy/highway.h>

#undef RIDGE_LANES_BEGIN
#undef RIDGE_LANES_END
#undef RIDGE_LANES_FN
#define RIDGE_LANES_BEGIN                                                                                              \
  HWY_BEFORE_NAMESPACE();                                                                                              \
  namespace ridge::quant::HWY_NAMESPACE {                                                                              \
  namespace { /* compiled for several instruction sets: nothing may be merged with a twin */
#define RIDGE_LANES_END                                                                                                \
  }                                                                                                                    \
  }                                                                                                                    \
  HWY_AFTER_NAMESPACE();
#define RIDGE_LANES_FN inline
#undef RIDGE_LANES_UNROLL
#define RIDGE_LANES_UNROLL HWY_UNROLL(8)

RIDGE_LANES_BEGIN

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
inline constexpr FloatTag kF;
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(FloatTag()));

struct Lanes {
  using Vector = hn::Vec<FloatTag>;
  Vector v;

  Lanes() = default;
  HWY_INLINE Lanes(float value) : v(hn::Set(kF, value)) {}
  HWY_INLINE Lanes(Vector v) : v(v) {}

  friend HWY_INLINE Lanes operator+(Lanes a, Lanes b) { return hn::Add(a.v, b.v); }
  friend HWY_INLINE Lanes operator-(Lanes a, Lanes b) { return hn::Sub(a.v, b.v); }
  friend HWY_INLINE Lanes operator*(Lanes a, Lanes b) { return hn::Mul(a.v, b.v); }
  friend HWY_INLINE Lanes operator/(Lanes a, Lanes b) { return hn::Div(a.v, b.v); }
  friend HWY_INLINE Lanes operator-(Lanes a) { return hn::Neg(a.v); }
  HWY_INLINE void operator+=(Lanes a) { v = hn::Add(v, a.v); }
  HWY_INLINE void operator-=(Lanes a) { v = hn::Sub(v, a.v); }

  friend HWY_INLINE auto operator<(Lanes a, Lanes b) { return hn::Lt(a.v, b.v); }
  friend HWY_INLINE auto operator>(Lanes a, Lanes b) { return hn::Gt(a.v, b.v); }
  friend HWY_INLINE auto operator==(Lanes a, Lanes b) { return hn::Eq(a.v, b.v); }
};
using LanesMask = hn::Mask<FloatTag>;

HWY_INLINE Lanes select(LanesMask condition, Lanes a, Lanes b) { return hn::IfThenElse(condition, a.v, b.v); }
template <int kSize, int kPlace>
struct LanesTable {
  Lanes entry[kSize];
  HWY_INLINE Lanes& operator[](int i) { return entry[i]; }
  HWY_INLINE Lanes operator[](int i) const { return entry[i]; }
};

using IntTag = hn::Rebind<int32_t, FloatTag>;
inline constexpr IntTag kI;
struct LanesInt {
  hn::Vec<IntTag> v;

  LanesInt() = default;
  HWY_INLINE LanesInt(int32_t value) : v(hn::Set(kI, value)) {}
  HWY_INLINE LanesInt(hn::Vec<IntTag> v) : v(v) {}
};
HWY_INLINE bool all(LanesMask a) { return hn::AllTrue(kF, a); }
HWY_INLINE bool any(LanesMask a) { return !hn::AllFalse(kF, a); }
HWY_INLINE Lanes to_float(LanesInt a) { return hn::ConvertTo(kF, a.v); }
// The nearest integer in the low 22 bits.
HWY_INLINE LanesInt low_bits(Lanes a) { return hn::BitCast(kI, (a + Lanes(12582912.0f)).v); }

HWY_INLINE LanesMask both(LanesMask a, LanesMask b) { return hn::And(a, b); }
HWY_INLINE Lanes min(Lanes a, Lanes b) { return hn::Min(a.v, b.v); }
HWY_INLINE Lanes max(Lanes a, Lanes b) { return hn::Max(a.v, b.v); }
HWY_INLINE Lanes abs(Lanes a) { return hn::Abs(a.v); }
#if HWY_TARGET ==                                                                                                      \
    HWY_SCALAR // Highway's rounding is slow; numbers from 2^22 up come out inexact, but callers clamp all of them
HWY_INLINE Lanes round(Lanes a) { return (a + Lanes(12582912.0f)) - Lanes(12582912.0f); }
#else
HWY_INLINE Lanes round(Lanes a) { return hn::Round(a.v); }
#endif
HWY_INLINE Lanes floor_power_of_two(Lanes a) {
  return hn::And(a.v, hn::BitCast(kF, hn::Set(hn::Rebind<uint32_t, FloatTag>(), 0x7f800000u)));
}

RIDGE_LANES_END

#endif

RIDGE_LANES_BEGIN

// Two integers of 16 bits per lane; pairs() rounds to them.
#if defined(__CUDACC__) || HWY_TARGET == HWY_SCALAR
struct Pairs {
  int a, b;

  RIDGE_LANES_FN friend Pairs operator-(Pairs x, Pairs y) { return {x.a - y.a, x.b - y.b}; }
  RIDGE_LANES_FN friend Pairs operator+(Pairs x, Pairs y) { return {x.a + y.a, x.b + y.b}; }
};
#ifdef __CUDACC__
RIDGE_LANES_FN int raw(int a) { return a; }
#else
RIDGE_LANES_FN int raw(LanesInt a) { return hn::GetLane(a.v); }
#endif
RIDGE_LANES_FN Pairs pairs(Lanes a, Lanes b) {
  return {static_cast<int16_t>(raw(low_bits(a))), static_cast<int16_t>(raw(low_bits(b)))};
}
RIDGE_LANES_FN Pairs both_of(int a) { return {a, a}; }
// x * y / 2^15, rounded; halves upwards.
RIDGE_LANES_FN Pairs scaled(Pairs x, Pairs y) { return {(x.a * y.a + 0x4000) >> 15, (x.b * y.b + 0x4000) >> 15}; }
RIDGE_LANES_FN int least(int x, int y) { return x < y ? x : y; }
RIDGE_LANES_FN int most(int x, int y) { return x > y ? x : y; }
RIDGE_LANES_FN Pairs min(Pairs x, Pairs y) { return {least(x.a, y.a), least(x.b, y.b)}; }
RIDGE_LANES_FN Pairs max(Pairs x, Pairs y) { return {most(x.a, y.a), most(x.b, y.b)}; }
RIDGE_LANES_FN LanesInt add_products(LanesInt sum, Pairs x, Pairs y) { return raw(sum) + x.a * y.a + x.b * y.b; }
#else
using ShortTag = hn::Repartition<int16_t, FloatTag>;
struct Pairs {
  hn::Vec<ShortTag> v;

  friend HWY_INLINE Pairs operator-(Pairs x, Pairs y) { return {hn::Sub(x.v, y.v)}; }
  friend HWY_INLINE Pairs operator+(Pairs x, Pairs y) { return {hn::Add(x.v, y.v)}; }
};
HWY_INLINE Pairs pairs(Lanes a, Lanes b) {
  const auto low = hn::And(low_bits(a).v, hn::Set(kI, 0xffff));
  return {hn::BitCast(ShortTag(), hn::Or(low, hn::ShiftLeft<16>(low_bits(b).v)))};
}
HWY_INLINE Pairs both_of(int a) { return {hn::Set(ShortTag(), static_cast<int16_t>(a))}; }
// x * y / 2^15, rounded; halves upwards.
HWY_INLINE Pairs scaled(Pairs x, Pairs y) { return {hn::MulFixedPoint15(x.v, y.v)}; }
HWY_INLINE Pairs min(Pairs x, Pairs y) { return {hn::Min(x.v, y.v)}; }
HWY_INLINE Pairs max(Pairs x, Pairs y) { return {hn::Max(x.v, y.v)}; }
HWY_INLINE LanesInt add_products(LanesInt sum, Pairs x, Pairs y) {
#if HWY_TARGET == HWY_NEON // Highway's would mix lanes
  const int32x4_t low = vmull_s16(vget_low_s16(x.v.raw), vget_low_s16(y.v.raw));
  sum.v.raw = vaddq_s32(sum.v.raw, vpaddq_s32(low, vmull_high_s16(x.v.raw, y.v.raw)));
  return sum;
#else
  auto unused = hn::Zero(kI);
  return hn::ReorderWidenMulAccumulate(kI, x.v, y.v, sum.v, unused);
#endif
}
#endif

RIDGE_LANES_FN Lanes clamp(Lanes a, Lanes low, Lanes high) { return min(max(a, low), high); }

RIDGE_LANES_FN Lanes inverse(Lanes a) { return select(a == Lanes(0.0f), Lanes(0.0f), Lanes(1.0f) / a); }

// Dekker's splitter; |a| < 2^(100 - bits).
template <int bits>
RIDGE_LANES_FN Lanes round_significand(Lanes a) {
  const Lanes scaled = a * Lanes(static_cast<float>((1 << (24 - bits)) + 1));
  return scaled - (scaled - a);
}

// Saturates.
RIDGE_LANES_FN Lanes round_to_f16(Lanes a) {
  const Lanes magnitude = min(abs(a), Lanes(65504.0f));
  const Lanes subnormal = (magnitude + Lanes(0.5f)) - Lanes(0.5f); // multiples of 2^-24
  const Lanes rounded =
      min(select(magnitude < Lanes(0x1p-14f), subnormal, round_significand<11>(magnitude)), Lanes(65504.0f));
  return select(a < Lanes(0.0f), -rounded, rounded);
}

RIDGE_LANES_END

#endif
