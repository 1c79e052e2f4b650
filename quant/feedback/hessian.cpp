#include "quant/feedback/hessian.h"

#include "core/error.h"
#include "core/target_clones.h"

#include <algorithm>
#include <cmath>

namespace ridge::quant {
namespace {

constexpr int64_t kTile = 64;

RIDGE_CLONES void add_four(float* out, const float* x, int64_t stride, const float* a, int64_t n) {
  const float *x0 = x, *x1 = x + stride, *x2 = x + 2 * stride, *x3 = x + 3 * stride;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) out[j] += (a[0] * x0[j] + a[1] * x1[j]) + (a[2] * x2[j] + a[3] * x3[j]);
}

RIDGE_CLONES float dot(const float* a, const float* b, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// In place, lower triangle: a = L Lᵀ. false: not positive definite.
bool cholesky(std::vector<float>& a, int64_t n) {
  for (int64_t k = 0; k < n; k += kTile) {
    const int64_t end = std::min(n, k + kTile);
    for (int64_t i = k; i < end; ++i)
      for (int64_t j = k; j <= i; ++j) {
        const float rest = a[i * n + j] - dot(&a[i * n + k], &a[j * n + k], j - k);
        if (i == j && !(rest > 0)) return false;
        a[i * n + j] = i == j ? std::sqrt(rest) : rest / a[j * n + j];
      }
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t i = end; i < n; ++i)
      for (int64_t j = k; j < end; ++j)
        a[i * n + j] = (a[i * n + j] - dot(&a[i * n + k], &a[j * n + k], j - k)) / a[j * n + j];
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t i = end; i < n; ++i)
      for (int64_t j = end; j <= i; ++j) a[i * n + j] -= dot(&a[i * n + k], &a[j * n + k], end - k);
  }
  return true;
}

constexpr int64_t kLanes = 16; // rows side by side: [cols][kLanes]

// out += x matrix
RIDGE_CLONES void add_product(const float* matrix, int64_t n, const float* x, float* out) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < n; ++k)
#pragma omp simd
      for (int r = 0; r < kLanes; ++r) out[k * kLanes + r] += matrix[i * n + k] * x[i * kLanes + r];
}

// x = x (M D Mᵀ)⁻¹
RIDGE_CLONES void solve(const CpuHessian::Factor& factor, float* x) {
  const int64_t n = factor.cols;
  for (int64_t k = n - 1; k >= 0; --k) { // Mᵀ
    const float* m = &factor.m[k * n];
    float sum[kLanes] = {};
    for (int64_t j = k + 1; j < n; ++j)
#pragma omp simd
      for (int r = 0; r < kLanes; ++r) sum[r] += m[j] * x[j * kLanes + r];
#pragma omp simd
    for (int r = 0; r < kLanes; ++r) x[k * kLanes + r] -= sum[r];
  }
  for (int64_t i = 0; i < n * kLanes; ++i) x[i] /= factor.d[i / kLanes];
  for (int64_t i = 0; i < n; ++i) { // M
    const float* m = &factor.m[i * n];
    for (int64_t k = i + 1; k < n; ++k)
#pragma omp simd
      for (int r = 0; r < kLanes; ++r) x[k * kLanes + r] -= m[k] * x[i * kLanes + r];
  }
}

// out [a's width][cols] += aᵀ x, both with a row per input.
void add_moment(std::span<const float> a, std::span<const float> x, int64_t cols, std::vector<float>& out) {
  const int64_t count = std::ssize(x) / cols, width = std::ssize(a) / count;
  out.resize(static_cast<size_t>(width * cols));
  std::vector<float> rest; // zeros behind the last inputs
  int64_t rows = count;
  if (count % 4 != 0) {
    rows = (count + 3) / 4 * 4;
    rest.assign(x.begin(), x.end());
    rest.resize(static_cast<size_t>(rows * cols));
    x = rest;
  }
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < width; ++i)
    for (int64_t t = 0; t < rows; t += 4) {
      float factors[4];
      for (int64_t s = 0; s < 4; ++s) factors[s] = t + s < count ? a[(t + s) * width + i] : 0.0f;
      add_four(&out[i * cols], &x[t * cols], cols, factors, cols);
    }
}

} // namespace

void CpuHessian::add_originals(std::span<const float> inputs, std::span<const float> originals,
                               std::span<const float> ahead) {
  std::vector<float> change(originals.begin(), originals.end());
  for (size_t i = 0; i < change.size(); ++i) change[i] -= inputs[i];
  add_moment(change, inputs, cols_, shift_);
  if (!ahead.empty()) add_moment(ahead, inputs, cols_, ahead_);
}

std::vector<float> CpuHessian::targets(const float* weights, int64_t rows) {
  if (!factor_) factor_ = factor(kDamping);
  const int64_t n = cols_;
  std::vector<float> result(weights, weights + rows * n);
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t first = 0; first < rows; first += kLanes) {
    const int64_t count = std::min(kLanes, rows - first);
    std::vector<float> w(static_cast<size_t>(n * kLanes)), change(w.size());
    for (int64_t r = 0; r < count; ++r)
      for (int64_t i = 0; i < n; ++i) {
        w[i * kLanes + r] = weights[(first + r) * n + i];
        if (!ahead_.empty()) change[i * kLanes + r] = ahead_[(first + r) * n + i];
      }
    if (!shift_.empty()) add_product(shift_.data(), n, w.data(), change.data());
    solve(*factor_, change.data());
    for (int64_t r = 0; r < count; ++r)
      for (int64_t i = 0; i < n; ++i) result[(first + r) * n + i] += change[i * kLanes + r];
  }
  return result;
}

void CpuHessian::add(std::span<const float> inputs) {
  const int64_t n = cols_, count = std::ssize(inputs) / n;
  constexpr int64_t kInputs = 64;
  std::vector<float> rest;
  const float* x = inputs.data();
  int64_t rows = count;
  if (count % 4 != 0) {
    rows = (count + 3) / 4 * 4;
    rest.assign(inputs.begin(), inputs.end());
    rest.resize(static_cast<size_t>(rows * n));
    x = rest.data();
  }
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t tile = (n - 1) / kTile; tile >= 0; --tile)
    for (int64_t first = 0; first < rows; first += kInputs)
      for (int64_t i = tile * kTile; i < std::min(n, (tile + 1) * kTile); ++i)
        for (int64_t t = first; t < std::min(rows, first + kInputs); t += 4) {
          const float a[4] = {x[t * n + i], x[(t + 1) * n + i], x[(t + 2) * n + i], x[(t + 3) * n + i]};
          add_four(&lower_[i * n], x + t * n, n, a, i + 1);
        }
  inputs_ += static_cast<double>(count);
}

std::vector<float> CpuHessian::mean_squares() const {
  std::vector<float> mean(static_cast<size_t>(cols_));
  for (int64_t i = 0; i < cols_; ++i)
    mean[i] = inputs_ > 0 ? static_cast<float>(lower_[i * cols_ + i] / inputs_) : 0.0f;
  return mean;
}

double CpuHessian::output_error(std::span<const float> errors) const {
  const int64_t n = cols_, rows = std::ssize(errors) / n;
  double total = 0;
#pragma omp parallel for schedule(dynamic, 1) reduction(+ : total)
  for (int64_t r = 0; r < rows; ++r) {
    const float* e = errors.data() + r * n;
    for (int64_t i = 0; i < n; ++i)
      total += static_cast<double>(e[i]) *
               (2 * static_cast<double>(dot(&lower_[i * n], e, i)) + static_cast<double>(lower_[i * n + i]) * e[i]);
  }
  return total;
}

CpuHessian::Factor CpuHessian::factor(double damping) const {
  const int64_t n = cols_;
  double mean = 0;
  for (int64_t i = 0; i < n; ++i) mean += lower_[i * n + i] / static_cast<double>(n);
  if (!(mean > 0) || !std::isfinite(mean)) mean = 1; // no inputs: no feedback
  Factor result{n, {}, std::vector<float>(static_cast<size_t>(n)), 0};
  for (;; damping *= 10) {
    // Reversing H before and after Cholesky gives an upper triangular factor.
    std::vector<float>& a = result.m;
    a.assign(lower_.size(), 0);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j <= i; ++j)
        a[i * n + j] = lower_[(n - 1 - j) * n + (n - 1 - i)] + (i == j ? static_cast<float>(damping * mean) : 0.0f);
    if (cholesky(a, n)) break;
    if (damping > 1e3) throw_error("the calibration inputs are not finite: the model or its weights are damaged");
  }
  result.damping = static_cast<float>(damping * mean);
  std::ranges::reverse(result.m);
  for (int64_t k = 0; k < n; ++k) result.d[k] = result.m[k * n + k];
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = i; k < n; ++k) result.m[i * n + k] /= result.d[k];
  for (float& d : result.d) d *= d;
  return result;
}

} // namespace ridge::quant
