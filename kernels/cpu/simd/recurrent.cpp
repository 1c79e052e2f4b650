// Each state row is read and written once: 128 elements stay in registers between the products.
#include "kernels/cpu/formats/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/simd/recurrent.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/formats/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

void convolve(const float* const* inputs, const float* taps, const float* bias, int64_t kernel, int64_t first,
              int64_t count, float* sum) {
  for (int64_t c = first; c < first + count; ++c) {
    float total = bias ? bias[c] : 0;
    for (int64_t i = 0; i < kernel; ++i) total += taps[c * kernel + i] * inputs[i][c];
    sum[c - first] = total;
  }
}

HWY_INLINE float decayed_dot(const float* x, const float* decay, const float* y, int64_t count) {
  VF sums[2] = {hn::Zero(kF), hn::Zero(kF)};
  int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes)
    for (int j = 0; j < 2; ++j) {
      const int64_t at = i + j * kLanes;
      sums[j] = hn::MulAdd(hn::Mul(hn::LoadU(kF, x + at), hn::LoadU(kF, decay + at)), hn::LoadU(kF, y + at), sums[j]);
    }
  float sum = sum_of(hn::Add(sums[0], sums[1]));
  for (; i < count; ++i) sum += x[i] * decay[i] * y[i];
  return sum;
}

void delta_rule(const float* q, const float* k, const float* v, const float* decay, float beta, int64_t dim,
                float* state, float* out) {
  for (int64_t r = 0; r < dim; ++r) {
    float* row = state + r * dim;
    const float change = beta * (v[r] - decayed_dot(row, decay, k, dim));
    const VF learn = hn::Set(kF, change);
    VF asked = hn::Zero(kF);
    int64_t i = 0;
    for (; i + kLanes <= dim; i += kLanes) {
      const VF s = hn::MulAdd(learn, hn::LoadU(kF, k + i), hn::Mul(hn::LoadU(kF, decay + i), hn::LoadU(kF, row + i)));
      hn::StoreU(s, kF, row + i);
      asked = hn::MulAdd(s, hn::LoadU(kF, q + i), asked);
    }
    float sum = sum_of(asked);
    for (; i < dim; ++i) sum += (row[i] = decay[i] * row[i] + change * k[i]) * q[i];
    out[r] = sum;
  }
}

float scan(const float* decay, const float* b, const float* c, float factor, int64_t states, float* state) {
  const VF learn = hn::Set(kF, factor);
  VF asked = hn::Zero(kF);
  int64_t i = 0;
  for (; i + kLanes <= states; i += kLanes) {
    const VF s = hn::MulAdd(learn, hn::LoadU(kF, b + i), hn::Mul(hn::LoadU(kF, decay + i), hn::LoadU(kF, state + i)));
    hn::StoreU(s, kF, state + i);
    asked = hn::MulAdd(s, hn::LoadU(kF, c + i), asked);
  }
  float sum = sum_of(asked);
  for (; i < states; ++i) sum += (state[i] = decay[i] * state[i] + factor * b[i]) * c[i];
  return sum;
}

const RecurrentKernels* table() {
  static constexpr RecurrentKernels kTable = {convolve, delta_rule, scan};
  return &kTable;
}

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::kernels::cpu {
HWY_EXPORT(table);
const RecurrentKernels& recurrent_kernels() { return *HWY_DYNAMIC_DISPATCH(table)(); }
} // namespace ridge::kernels::cpu
#endif
