#include "kernels/cpu/formats/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/simd/vectors.cpp"
#include <hwy/foreach_target.h>

#include "core/gelu.h"
#include "core/half.h"
#include "kernels/cpu/formats/partial_sums-inl.h"
#include "kernels/cpu/formats/simd-inl.h"

#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

// A chunk: scales per 32 values, each twice, and codes. Infinity gives an infinite scale, NaN an arbitrary code.
HWY_INLINE void quantize_chunk(const float* x, int8_t* code, float* scale, float* inverse) {
  for (int64_t g = 0; g < kChunk / 32; ++g) {
    VF largest = hn::Zero(kF);
    for (int64_t i = 0; i < 32; i += kLanes) largest = hn::Max(largest, hn::Abs(hn::LoadU(kF, x + 32 * g + i)));
    scale[2 * g] = scale[2 * g + 1] = max_of(largest);
  }
  const VF limit = hn::Set(kF, 127.0f);
  for (int64_t i = 0; i < kChunk / 16; i += kLanes) {
    const VF step = hn::Div(hn::LoadU(kF, scale + i), limit);
    hn::StoreU(step, kF, scale + i);
    hn::StoreU(hn::IfThenElseZero(hn::Gt(step, hn::Zero(kF)), hn::Div(hn::Set(kF, 1.0f), step)), kF, inverse + i);
  }
  const hn::Rebind<int8_t, FloatTag> bytes;
  for (int64_t i = 0; i < kChunk; i += kLanes) {
    const VF scaled = hn::Mul(hn::LoadU(kF, x + i), hn::Set(kF, inverse[i / 16]));
    hn::StoreU(hn::DemoteTo(bytes, hn::NearestInt(hn::Max(hn::Min(scaled, limit), hn::Neg(limit)))), bytes, code + i);
  }
}

// The residual in 1/256 of a step, which becomes the scale.
HWY_INLINE void quantize_residual(const float* x, const int8_t* code, float* scale, int8_t* low) {
  alignas(64) float step[kChunk / 16], inverse[kChunk / 16];
  for (int64_t i = 0; i < kChunk / 16; i += kLanes) {
    const VF small = hn::Mul(hn::LoadU(kF, scale + i), hn::Set(kF, 1.0f / 256));
    hn::StoreU(small, kF, step + i);
    hn::StoreU(hn::IfThenElseZero(hn::Gt(small, hn::Zero(kF)), hn::Div(hn::Set(kF, 1.0f), small)), kF, inverse + i);
  }
  const hn::Rebind<int8_t, FloatTag> bytes;
  for (int64_t i = 0; i < kChunk; i += kLanes) {
    const VF whole = hn::ConvertTo(kF, hn::PromoteTo(kI, hn::LoadU(bytes, code + i)));
    const VF rest = hn::Sub(hn::LoadU(kF, x + i), hn::Mul(hn::Set(kF, scale[i / 16]), whole));
    const VF scaled = hn::Mul(rest, hn::Set(kF, inverse[i / 16]));
    const VF clamped = hn::Max(hn::Min(scaled, hn::Set(kF, 127.0f)), hn::Set(kF, -128.0f));
    hn::StoreU(hn::DemoteTo(bytes, hn::NearestInt(clamped)), bytes, low + i);
  }
  std::copy_n(step, kChunk / 16, scale);
}

template <int kGroup>
HWY_INLINE void sum_codes(const int8_t* code, const int8_t* low, const float* scale, float* sum, int32_t* bias) {
  const VI ones = hn::Set(kI, 0x01010101);
  VI dots[kCodeVectors], sums[kSumVectors];
  for (int64_t j = 0; j < kCodeVectors; ++j) {
    dots[j] = dot4(hn::Zero(kI), ones, load_int(code + 4 * kLanes * j));
    if (low) dots[j] = dot4(hn::ShiftLeft<8>(dots[j]), ones, load_int(low + 4 * kLanes * j));
  }
  add_groups<kGroup>(dots, sums);
  for (int64_t j = 0; j < kSumVectors; ++j) {
    hn::StoreU(hn::Mul(hn::LoadU(kF, scale + j * kLanes), hn::ConvertTo(kF, sums[j])), kF, sum + j * kLanes);
    hn::StoreU(hn::Neg(hn::ShiftLeft<7>(sums[j])), kI, bias + j * kLanes);
  }
}

void quantize(const float* x, int64_t cols, QuantizedRow out) {
  for (int64_t first = 0; first < out.cols; first += kChunk) {
    alignas(64) float padded[kChunk] = {}, inverse[kChunk / 16];
    const float* values = x + first;
    if (cols - first < kChunk) {
      std::copy_n(values, cols - first, padded);
      values = padded;
    }
    int8_t *code = out.code() + first, *low = out.wide ? out.low() + first : nullptr;
    const int64_t at = first / 16;
    quantize_chunk(values, code, out.scale() + at, inverse);
    if (low) quantize_residual(values, code, out.scale() + at, low);
    sum_codes<16>(code, low, out.scale() + at, out.sum16() + at, out.bias16() + at);
    sum_codes<32>(code, low, out.scale() + at, out.sum32() + at, out.bias32() + at);
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

void layer_norm(const float* x, const float* weight, const float* bias, int64_t width, float epsilon, bool centered,
                float* out) {
  const double count = static_cast<double>(width);
  double sum = 0, squares = 0;
  for (int64_t i = 0; centered && i < width; ++i) sum += x[i];
  const auto mean = static_cast<float>(sum / count);
  for (int64_t i = 0; i < width; ++i) squares += static_cast<double>(x[i] - mean) * (x[i] - mean);
  const auto factor = static_cast<float>(1 / std::sqrt(squares / count + epsilon));
  for (int64_t i = 0; i < width; ++i) out[i] = (x[i] - mean) * factor * weight[i] + (bias ? bias[i] : 0.0f);
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

constexpr float kGelu = 0.7978845608f, kGeluCube = 0.044715f; // sqrt(2 / pi); cubic coefficient

HWY_INLINE VF sigmoid_of(VF x) { // exp(88) is still finite
  const VF one = hn::Set(kF, 1.0f);
  return hn::Div(one, hn::Add(one, hn::Exp(kF, hn::Min(hn::Neg(x), hn::Set(kF, 88.0f)))));
}

// x * P(x²) / Q(x²) below kErfIsOne: the error is at most 4e-7.
HWY_INLINE VF erf_of(VF x) {
  constexpr float kErfIsOne = 4;
  constexpr float kP[] = {-2.72614225801306e-10f, 2.77068142495902e-08f,  -2.10102402082508e-06f,
                          -5.69250639462346e-05f, -7.34990630326855e-04f, -2.95459980854025e-03f,
                          -1.60960333262415e-02f};
  constexpr float kQ[] = {-1.45660718464996e-05f, -2.13374055278905e-04f, -1.68282697438203e-03f,
                          -7.37332916720468e-03f, -1.42647390514189e-02f};
  const VF one = hn::Set(kF, 1.0f), square = hn::Mul(x, x);
  const auto polynomial = [&](const auto& factors) HWY_ATTR {
    VF sum = hn::Set(kF, factors[0]);
    for (size_t i = 1; i < std::size(factors); ++i) sum = hn::MulAdd(sum, square, hn::Set(kF, factors[i]));
    return sum;
  };
  const auto large = hn::Ge(hn::Abs(x), hn::Set(kF, kErfIsOne));
  return hn::IfThenElse(large, hn::CopySign(one, x), hn::Div(hn::Mul(x, polynomial(kP)), polynomial(kQ)));
}

HWY_INLINE VF as_half(VF x) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 // Highway's conversion truncates (EMU128's with g++ 13)
  HWY_ALIGN float lanes[hn::MaxLanes(kF)];
  hn::Store(x, kF, lanes);
  for (float& lane : lanes) lane = core::f32_from_f16(core::f16_from_f32(lane));
  return hn::Load(kF, lanes);
#else
  const hn::Rebind<hwy::float16_t, FloatTag> half;
  return hn::PromoteTo(kF, hn::DemoteTo(half, x));
#endif
}

template <core::Activation kKind>
HWY_INLINE VF activated(const core::ActivationParams& params, VF x) {
  using enum core::Activation;
  const VF alpha = hn::Set(kF, params.alpha), zero = hn::Zero(kF);
  if constexpr (kKind == identity) return hn::Mul(alpha, x);
  if constexpr (kKind == silu) return hn::Mul(x, sigmoid_of(hn::Mul(alpha, x)));
  if constexpr (kKind == sigmoid) return sigmoid_of(hn::Mul(alpha, x));
  if constexpr (kKind == root_sigmoid) {
    const VF root = hn::Sqrt(hn::Max(hn::Abs(x), hn::Set(kF, core::kMinRooted)));
    return sigmoid_of(hn::IfThenElse(hn::Eq(x, zero), x, hn::CopySign(root, x))); // keeps NaN
  }
  if constexpr (kKind == relu || kKind == relu_squared) {
    const VF positive = hn::IfThenElseZero(hn::Not(hn::Lt(x, zero)), x); // keeps NaN
    return kKind == relu ? positive : hn::Mul(positive, positive);
  }
  if constexpr (kKind == gelu) { // (1 + tanh(u)) / 2 is sigmoid(2 u)
    const auto large = hn::Ge(hn::Abs(x), hn::Set(kF, core::kGeluIsIdentity));
    const VF of = as_half(hn::IfThenZeroElse(large, x));
    const VF cube = hn::MulAdd(hn::Mul(of, of), hn::Set(kF, kGeluCube), hn::Set(kF, 1.0f));
    const VF y = as_half(hn::Mul(of, sigmoid_of(hn::Mul(hn::Mul(of, hn::Set(kF, 2 * kGelu)), cube))));
    return hn::IfThenElse(large, hn::IfThenElseZero(hn::Gt(x, zero), x), y);
  }
  if constexpr (kKind == gelu_erf)
    return hn::Mul(hn::Mul(hn::Set(kF, 0.5f), x),
                   hn::Add(hn::Set(kF, 1.0f), erf_of(hn::Mul(x, hn::Set(kF, 0.7071067812f)))));
  if constexpr (kKind == soft_cap) return hn::Mul(alpha, hn::Tanh(kF, hn::Div(x, alpha)));
  if constexpr (kKind == softplus) return hn::Add(hn::Max(x, zero), hn::Log1p(kF, hn::Exp(kF, hn::Neg(hn::Abs(x)))));
  if constexpr (kKind == xielu) {
    const VF negative = hn::Sub(hn::Expm1(kF, hn::Min(x, hn::Set(kF, params.epsilon))), x);
    return hn::MulAdd(hn::Set(kF, params.beta), x,
                      hn::IfThenElse(hn::Gt(x, zero), hn::Mul(alpha, hn::Mul(x, x)),
                                     hn::Mul(hn::Set(kF, params.alpha_negative), negative)));
  }
  return x;
}

// Tails go through padded copies: an element's bits do not depend on its place.
template <typename Run>
HWY_INLINE void for_vectors(const float* gate, const float* x, int64_t width, float* out, Run run) {
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) run(gate + i, x + i, out + i);
  if (i == width) return;
  float gates[kLanes] = {}, others[kLanes] = {}, results[kLanes];
  std::copy_n(gate + i, width - i, gates);
  std::copy_n(x + i, width - i, others);
  run(gates, others, results);
  std::copy_n(results, width - i, out + i);
}

template <typename Limit, typename Join>
HWY_INLINE void for_activated(const core::ActivationParams& params, const float* gate, const float* x, int64_t width,
                              float* out, Limit limit, Join join) {
  using enum core::Activation;
  const auto run = [&]<core::Activation kKind>() HWY_ATTR {
    for_vectors(gate, x, width, out, [&](const float* g, const float* other, float* result) HWY_ATTR {
      hn::StoreU(join(activated<kKind>(params, limit(hn::LoadU(kF, g))), hn::LoadU(kF, other)), kF, result);
    });
  };
  switch (params.kind) {
  case identity: return run.template operator()<identity>();
  case silu: return run.template operator()<silu>();
  case sigmoid: return run.template operator()<sigmoid>();
  case relu: return run.template operator()<relu>();
  case relu_squared: return run.template operator()<relu_squared>();
  case gelu: return run.template operator()<gelu>();
  case gelu_erf: return run.template operator()<gelu_erf>();
  case soft_cap: return run.template operator()<soft_cap>();
  case root_sigmoid: return run.template operator()<root_sigmoid>();
  case xielu: return run.template operator()<xielu>();
  case softplus: return run.template operator()<softplus>();
  }
}

struct AsIs {
  HWY_INLINE VF operator()(VF x) const { return x; }
};
struct AtMost {
  float limit;
  HWY_INLINE VF operator()(VF x) const { return hn::Min(x, hn::Set(kF, limit)); }
};
struct Within {
  float limit;
  HWY_INLINE VF operator()(VF x) const { return hn::Max(hn::Min(x, hn::Set(kF, limit)), hn::Set(kF, -limit)); }
};
struct Activated {
  HWY_INLINE VF operator()(VF v, VF) const { return v; }
};
struct Product {
  HWY_INLINE VF operator()(VF v, VF x) const { return hn::Mul(v, x); }
};
struct LimitedProduct {
  float gate_limit, limit, shift;
  HWY_INLINE VF operator()(VF v, VF x) const {
    return hn::Mul(hn::Min(v, hn::Set(kF, gate_limit)), hn::Add(Within{limit}(x), hn::Set(kF, shift)));
  }
};

void activate(const core::ActivationParams& params, const float* x, int64_t width, float* out) {
  if (params.limit > 0) return for_activated(params, x, x, width, out, Within{params.limit}, Activated());
  for_activated(params, x, x, width, out, AsIs(), Activated());
}

void glu(const core::ActivationParams& params, const float* gate, const float* x, int64_t width, float* out) {
  if (params.limit == 0 && params.shift == 0) return for_activated(params, gate, x, width, out, AsIs(), Product());
  constexpr float kNone = std::numeric_limits<float>::infinity();
  const float limit = params.limit > 0 ? params.limit : kNone;
  const bool after = params.limits_activated;
  for_activated(params, gate, x, width, out, AtMost{after ? kNone : limit},
                LimitedProduct{after ? limit : kNone, limit, params.shift});
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
  static constexpr VectorKernels kTable = {quantize, rms_norm, layer_norm, rope_adjacent, rope_split,
                                           activate, glu,      add,        scale_add};
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
