// The ops that walk along vectors: quantization of activations, norms, rotations, activations, gates.
#include "kernels/cpu/formats/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/simd/vectors.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/formats/simd-inl.h"

#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace { // compiled for several instruction sets: nothing may be merged with a twin

// 32 values to codes in [-127, 127]; returns the scale. NaN becomes some code, infinity makes the scale infinite.
HWY_INLINE float quantize32(const float* x, int8_t* code) {
  VF largest = hn::Zero(kF);
  for (int64_t i = 0; i < 32; i += kLanes) largest = hn::Max(largest, hn::Abs(hn::LoadU(kF, x + i)));
  const float scale = max_of(largest) / 127;
  const VF inverse = hn::Set(kF, scale > 0 ? 1 / scale : 0.0f), limit = hn::Set(kF, 127.0f);
  const hn::Rebind<int8_t, FloatTag> bytes;
  for (int64_t i = 0; i < 32; i += kLanes) {
    const VF scaled = hn::Mul(hn::LoadU(kF, x + i), inverse);
    const VF clamped = hn::Max(hn::Min(scaled, limit), hn::Neg(limit));
    hn::StoreU(hn::DemoteTo(bytes, hn::NearestInt(clamped)), bytes, code + i);
  }
  return scale;
}

void quantize(const float* x, int64_t cols, QuantizedRow out) {
  for (int64_t g = 0; g < out.cols / 32; ++g) {
    int8_t* code = out.code() + 32 * g;
    float padded[32] = {};
    const int64_t valid = std::clamp<int64_t>(cols - 32 * g, 0, 32);
    const float* values = x + 32 * g;
    if (valid < 32) {
      std::copy_n(values, valid, padded);
      values = padded;
    }
    const float scale = quantize32(values, code);
    int32_t sum[2] = {};
    for (int i = 0; i < 32; ++i) sum[i / 16] += code[i];
    for (int h = 0; h < 2; ++h) {
      out.scale16()[2 * g + h] = scale;
      out.sum16()[2 * g + h] = scale * static_cast<float>(sum[h]);
      out.bias16()[2 * g + h] = -128 * sum[h];
    }
    out.sum32()[g] = scale * static_cast<float>(sum[0] + sum[1]);
    out.bias32()[g] = -128 * (sum[0] + sum[1]);
  }
}

void rms_norm(const float* x, const float* weight, int64_t width, float epsilon, float* out) {
  VF squares[4] = {hn::Zero(kF), hn::Zero(kF), hn::Zero(kF), hn::Zero(kF)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= width; i += 4 * kLanes)
    for (int j = 0; j < 4; ++j) {
      const VF v = hn::LoadU(kF, x + i + j * kLanes);
      squares[j] = hn::MulAdd(v, v, squares[j]);
    }
  double sum = sum_of(hn::Add(hn::Add(squares[0], squares[1]), hn::Add(squares[2], squares[3])));
  for (; i < width; ++i) sum += static_cast<double>(x[i]) * x[i];
  const float factor = static_cast<float>(1 / std::sqrt(sum / static_cast<double>(width) + epsilon));
  for (i = 0; i < width; ++i) out[i] = x[i] * factor * weight[i];
}

void rope_adjacent(const float* x, const float* cos_sin, int64_t pairs, int64_t head_dim, float* out) {
  for (int64_t i = 0; i < pairs; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1], c = cos_sin[i], s = cos_sin[pairs + i];
    out[2 * i] = a * c - b * s;
    out[2 * i + 1] = a * s + b * c;
  }
  for (int64_t i = 2 * pairs; i < head_dim; ++i) out[i] = x[i];
}

void rope_split(const float* x, const float* cos_sin, int64_t pairs, int64_t head_dim, float* out) {
  for (int64_t i = 0; i < pairs; ++i) {
    const float a = x[i], b = x[i + pairs], c = cos_sin[i], s = cos_sin[pairs + i];
    out[i] = a * c - b * s;
    out[i + pairs] = a * s + b * c;
  }
  for (int64_t i = 2 * pairs; i < head_dim; ++i) out[i] = x[i];
}

template <core::Activation kKind>
HWY_INLINE VF activated(VF x) {
  using enum core::Activation;
  const VF one = hn::Set(kF, 1.0f), largest = hn::Set(kF, 88.0f); // exp(88) is finite, and silu(-88) is 0 at this scale
  if constexpr (kKind == silu) return hn::Div(x, hn::Add(one, hn::Exp(kF, hn::Min(hn::Neg(x), largest))));
  if constexpr (kKind == sigmoid) return hn::Div(one, hn::Add(one, hn::Exp(kF, hn::Min(hn::Neg(x), largest))));
  if constexpr (kKind == relu_squared) {
    const VF positive = hn::IfThenElseZero(hn::Not(hn::Lt(x, hn::Zero(kF))), x); // keeps NaN
    return hn::Mul(positive, positive);
  }
  return x;
}

template <core::Activation kKind>
HWY_INLINE float activated(float x) {
  using enum core::Activation;
  if constexpr (kKind == silu) return x / (1 + std::exp(-x));
  if constexpr (kKind == sigmoid) return 1 / (1 + std::exp(-x));
  if constexpr (kKind == relu_squared) return x < 0 ? 0 : x * x;
  return x;
}

// run(i, vector or number) of `kind`, for all i.
template <core::Activation kKind, typename Store>
HWY_INLINE void for_activated(const float* x, int64_t width, Store store) {
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) store(i, activated<kKind>(hn::LoadU(kF, x + i)));
  for (; i < width; ++i) store(i, activated<kKind>(x[i]));
}

template <typename Store>
HWY_INLINE void for_activated(core::Activation kind, const float* x, int64_t width, Store store) {
  using enum core::Activation;
  switch (kind) {
  case identity: return for_activated<identity>(x, width, store);
  case silu: return for_activated<silu>(x, width, store);
  case sigmoid: return for_activated<sigmoid>(x, width, store);
  case relu_squared: return for_activated<relu_squared>(x, width, store);
  }
}

struct Store {
  float* out;
  HWY_INLINE void operator()(int64_t i, VF v) const { hn::StoreU(v, kF, out + i); }
  HWY_INLINE void operator()(int64_t i, float v) const { out[i] = v; }
};
struct StoreProduct {
  const float* x;
  float* out;
  HWY_INLINE void operator()(int64_t i, VF v) const { hn::StoreU(hn::Mul(v, hn::LoadU(kF, x + i)), kF, out + i); }
  HWY_INLINE void operator()(int64_t i, float v) const { out[i] = v * x[i]; }
};

void activate(core::Activation kind, const float* x, int64_t width, float* out) {
  for_activated(kind, x, width, Store{out});
}

void glu(core::Activation kind, const float* gate, const float* x, int64_t width, float* out) {
  for_activated(kind, gate, width, StoreProduct{x, out});
}

void add(const float* a, const float* b, float scale, int64_t width, float* out) {
  if (scale == 1)
    for (int64_t i = 0; i < width; ++i) out[i] = a[i] + b[i];
  else
    for (int64_t i = 0; i < width; ++i) out[i] = a[i] + scale * b[i];
}

void scale_add(const float* x, float factor, int64_t width, float* out) {
  for (int64_t i = 0; i < width; ++i) out[i] += factor * x[i];
}

const VectorKernels* table() {
  static constexpr VectorKernels kTable = {quantize, rms_norm, rope_adjacent, rope_split,
                                           activate, glu,      add,           scale_add};
  return &kTable;
}

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::kernels::cpu {
HWY_EXPORT(table);
const VectorKernels& vector_kernels() { return *HWY_DYNAMIC_DISPATCH(table)(); }
} // namespace ridge::kernels::cpu
#endif
