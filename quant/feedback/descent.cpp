#include "quant/feedback/descent.h"

#include "core/target_clones.h"
#include "quant/feedback/row_products.h"
#include "quant/formats/codebooks.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ridge::quant {
namespace {

constexpr int kRowLanes = Descent::kRows;
static_assert(kRowLanes == kProductLanes);

float f16_of(float value) { return core::f32_from_f16(core::f16_from_f32(value)); }

struct Sweep {
  const float* h; // of the group's first weight
  int64_t stride;
  float damping;
  int count;
  const float *scale, *offset; // [kRowLanes]
  const float *levels, *midpoints;
  int level_count;
  bool consecutive;
};

// Each weight in turn takes its best level, twice. moved: what the weights have changed by, instead of `decoded` and a
// gradient that follow. Arrays are [weight][kRowLanes].
RIDGE_CLONES void sweep_codes(const Sweep& s, const float* decoded, const float* gradient, float* moved, float* code,
                              float* change) {
  const float lowest = s.levels[0], highest = s.levels[s.level_count - 1];
  float inverse[kRowLanes];
  for (int r = 0; r < kRowLanes; ++r) inverse[r] = s.scale[r] != 0.0f ? 1.0f / s.scale[r] : 0.0f;
  std::fill_n(moved, s.count * kRowLanes, 0.0f);
  for (int i = 0; i < 2 * s.count; ++i) {
    const int at = i % s.count * kRowLanes;
    const float* h = s.h + i % s.count * s.stride;
    const float curvature = h[i % s.count] + s.damping, step = 1.0f / curvature;
    float *m = moved + at, product[2][kRowLanes] = {}, level[kRowLanes], g[kRowLanes];
    const int count = std::min(i, s.count); // the others have not moved
    for (int j = 0; j < count; j += 2)
#pragma omp simd
      for (int r = 0; r < kRowLanes; ++r) {
        product[0][r] += h[j] * moved[j * kRowLanes + r];
        product[1][r] += h[j + 1] * moved[(j + 1) * kRowLanes + r]; // count is even, or this one has not moved
      }
#pragma omp simd
    for (int r = 0; r < kRowLanes; ++r) {
      g[r] = gradient[at + r] - (product[0][r] + product[1][r]) - s.damping * m[r];
      const float x = (decoded[at + r] + m[r] + g[r] * step - s.offset[r]) * inverse[r];
      const float above = x > lowest ? x : lowest; // also of no number; branches would not be vectorized
      level[r] = above < highest ? above : highest;
    }
    if (s.consecutive) {
#pragma omp simd
      for (int r = 0; r < kRowLanes; ++r) level[r] = (level[r] + 12582912.0f) - 12582912.0f; // rounds
    } else {
      float x[kRowLanes];
      for (int r = 0; r < kRowLanes; ++r) x[r] = level[r], level[r] = lowest;
      for (int n = 1; n < s.level_count; ++n)
#pragma omp simd
        for (int r = 0; r < kRowLanes; ++r) level[r] = x[r] > s.midpoints[n - 1] ? s.levels[n] : level[r];
    }
#pragma omp simd
    for (int r = 0; r < kRowLanes; ++r) {
      const float to = s.scale[r] * level[r] + s.offset[r] - decoded[at + r], more = to - m[r];
      change[r] += more * (curvature * more - 2.0f * g[r]);
      m[r] = to;
      code[at + r] = level[r];
    }
  }
}

// H of eight columns = M D Mᵀ, M unit upper triangular.
void factorize(const Quadratic& quadratic, int64_t at, PointSearch::Octet& octet) {
  double a[8][8];
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j)
      a[i][j] = quadratic.h[(at + i) * quadratic.cols + at + j] + (i == j ? quadratic.damping : 0.0f);
  for (int k = 7; k >= 0; --k) {
    octet.d[k] = static_cast<float>(std::max(a[k][k], 1e-30));
    for (int i = 0; i < k; ++i) octet.m[i][k] = static_cast<float>(a[i][k] / std::max(a[k][k], 1e-30));
    for (int i = 0; i < k; ++i)
      for (int j = 0; j < k; ++j) a[i][j] -= octet.m[i][k] * a[k][j];
  }
}

} // namespace

Descent::Descent(Type type, const Quadratic& quadratic)
    : quadratic_(quadratic), codes_(*BlockCodes::of(type)), points_(PointSearch::of(type)),
      blocks_(quadratic.cols / codes_.block), gradient_(static_cast<size_t>(codes_.block * kRows)),
      offset_(static_cast<size_t>(codes_.block * kRows)), scale_(static_cast<size_t>(kRows * codes_.block / 16 + 2)) {
  for (Trial* trial : {&best_, &trial_})
    for (auto* values : {&trial->moved, &trial->code}) values->resize(static_cast<size_t>(codes_.group * kRows));
}

// decoded_, offset_ and scale_ of the block's weights.
void Descent::decode_block(int64_t block) {
  const int64_t per_row = codes_.block / 16;
  if (points_)
    for (int r = 0; r < kRows; ++r) points_->scales(parts_[r * blocks_ + block], &scale_[r * per_row]);
  const int group = points_ ? 16 : codes_.group;
  for (int g = 0; g < codes_.block / group; ++g) {
    Row scale, offset{};
    for (int r = 0; r < kRows; ++r) {
      if (points_) {
        scale[r] = scale_[r * per_row + g];
        continue;
      }
      const Scales s = codes_.scales(parts_[r * blocks_ + block], g);
      scale[r] = s.scale, offset[r] = s.offset;
    }
    for (int i = g * group; i < (g + 1) * group; ++i) {
      float* const decoded = &decoded_[(block * codes_.block + i) * kRows];
      for (int r = 0; r < kRows; ++r) {
        offset_[i * kRows + r] = offset[r];
        decoded[r] = scale[r] * static_cast<float>(parts_[r * blocks_ + block].code[i]) + offset[r];
      }
    }
  }
}

void Descent::start(int64_t rows, std::span<const Parts> parts) {
  rows_ = rows;
  parts_.resize(static_cast<size_t>(kRows * blocks_));
  decoded_.resize(static_cast<size_t>(quadratic_.cols * kRows));
  for (int64_t r = 0; r < kRows; ++r) // repeats the last row
    std::copy_n(&parts[std::min(r, rows - 1) * blocks_], blocks_, &parts_[r * blocks_]);
  for (int64_t block = 0; block < blocks_; ++block) decode_block(block);
}

void Descent::take_row(int row, const Descent& other) {
  error_[row] = other.error_[row];
  std::copy_n(&other.parts_[row * blocks_], blocks_, &parts_[row * blocks_]);
  for (int64_t k = row; k < std::ssize(decoded_); k += kRows) decoded_[k] = other.decoded_[k];
}

double Descent::error() const { return std::accumulate(error_.begin(), error_.begin() + rows_, 0.0); }

void Descent::try_codes(int64_t at, Trial& trial) const {
  trial.change.fill(0);
  const Sweep sweep{quadratic_.h + at * (quadratic_.cols + 1),
                    quadratic_.cols,
                    quadratic_.damping,
                    codes_.group,
                    trial.scale.data(),
                    trial.offset.data(),
                    codes_.levels.data(),
                    codes_.midpoints.data(),
                    static_cast<int>(codes_.levels.size()),
                    codes_.consecutive};
  sweep_codes(sweep, &decoded_[at * kRows], &gradient_[(at - first_) * kRows], trial.moved.data(), trial.code.data(),
              trial.change.data());
}

// Codes with the current factors, or with a neighbour of them.
void Descent::visit_group(int64_t block, int g) {
  const int n = codes_.group;
  const int64_t at = first_ + g * n;
  float* const gradient = &gradient_[g * n * kRows];
  std::array<int, kRows> chosen;
  chosen.fill(-1);
  for (int tried = -1; tried < BlockCodes::kNeighbours; ++tried) {
    Trial& trial = tried < 0 ? best_ : trial_;
    std::array<bool, kRows> valid;
    for (int r = 0; r < kRows; ++r) {
      Parts& parts = parts_[r * blocks_ + block];
      const float before[4] = {parts.d, parts.m, parts.scale[g % 16], parts.min[g % 16]};
      valid[r] = tried < 0 || codes_.neighbour(parts, g, tried);
      const Scales s = codes_.scales(parts, g);
      trial.scale[r] = s.scale, trial.offset[r] = s.offset;
      parts.d = before[0], parts.m = before[1], parts.scale[g % 16] = before[2], parts.min[g % 16] = before[3];
    }
    if (std::ranges::none_of(valid, std::identity{})) continue;
    try_codes(at, trial);
    if (tried < 0) continue;
    for (int r = 0; r < kRows; ++r) {
      if (!valid[r] || !(trial.change[r] < best_.change[r])) continue;
      chosen[r] = tried;
      best_.change[r] = trial.change[r];
      for (int i = r; i < n * kRows; i += kRows) {
        best_.moved[i] = trial.moved[i];
        best_.code[i] = trial.code[i];
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    if (!(best_.change[r] < 0)) { // stays
      for (int i = r; i < n * kRows; i += kRows) best_.moved[i] = 0;
      continue;
    }
    Parts& parts = parts_[r * blocks_ + block];
    if (chosen[r] >= 0) codes_.neighbour(parts, g, chosen[r]);
    for (int i = 0; i < n; ++i) parts.code[g * n + i] = static_cast<int8_t>(best_.code[i * kRows + r]);
    add_change(r, best_.change[r]);
  }
  const std::vector<float>& moved = best_.moved;
  for (int i = 0; i < n * kRows; ++i) {
    decoded_[at * kRows + i] += moved[i];
    gradient[i] -= quadratic_.damping * moved[i];
  }
  subtract_product(quadratic_.h + first_ * quadratic_.cols + at, quadratic_.cols, codes_.block, moved.data(), n,
                   gradient_.data(), kRows);
}

// All points of a codebook.
void Descent::visit_octet(int64_t block, int64_t at) {
  const int64_t in_block = at - first_;
  float* const gradient = &gradient_[in_block * kRows];
  PointSearch::Octet octet{};
  factorize(quadratic_, at, octet);
  for (int r = 0; r < kRows; ++r) {
    float y[8];
    for (int k = 7; k >= 0; --k) {
      y[k] = gradient[k * kRows + r];
      for (int j = k + 1; j < 8; ++j) y[k] -= octet.m[k][j] * y[j];
    }
    for (int k = 0; k < 8; ++k) y[k] /= octet.d[k];
    for (int k = 0; k < 8; ++k) {
      for (int i = 0; i < k; ++i) y[k] -= octet.m[i][k] * y[i];
      octet.weight[k][r] = octet.target[k][r] = decoded_[(at + k) * kRows + r] + y[k];
    }
    octet.scale[r] = scale_[r * (codes_.block / 16) + in_block / 16];
    octet.shift[r] =
        points_->shifted() ? static_cast<float>(iq1_shift(parts_[r * blocks_ + block].code[in_block])) : 0.0f;
  }
  points_->choose(octet);
  float moved[8 * kRows] = {};
  for (int r = 0; r < kRows; ++r) {
    float step[8], change = 0;
    for (int k = 0; k < 8; ++k) step[k] = octet.scale[r] * octet.code[k][r] - decoded_[(at + k) * kRows + r];
    for (int k = 0; k < 8; ++k) {
      float product = quadratic_.damping * step[k];
      for (int i = 0; i < 8; ++i) product += quadratic_.h[(at + k) * quadratic_.cols + at + i] * step[i];
      change += step[k] * (product - 2.0f * gradient[k * kRows + r]);
    }
    if (!(change < 0)) continue;
    add_change(r, change);
    for (int k = 0; k < 8; ++k) {
      moved[k * kRows + r] = step[k];
      decoded_[(at + k) * kRows + r] += step[k];
      gradient[k * kRows + r] -= quadratic_.damping * step[k];
      parts_[r * blocks_ + block].code[in_block + k] = static_cast<int8_t>(octet.code[k][r]);
    }
  }
  subtract_product(quadratic_.h + first_ * quadratic_.cols + at, quadratic_.cols, codes_.block, moved, 8,
                   gradient_.data(), kRows);
}

// d, then m, by least squares.
void Descent::refit_factors(int64_t block) {
  const int n = codes_.block;
  std::vector<float> part(static_cast<size_t>(n * kRows)), product(part.size());
  for (const bool offset : {false, true}) {
    if (codes_.factors == BlockCodes::Factors::floats || (offset && !codes_.has_offset)) return;
    for (int i = 0; i < n * kRows; ++i) part[i] = offset ? offset_[i] : decoded_[first_ * kRows + i] - offset_[i];
    for (int i = 0; i < n * kRows; ++i) product[i] = -quadratic_.damping * part[i];
    subtract_product(quadratic_.h + first_ * (quadratic_.cols + 1), quadratic_.cols, n, part.data(), n, product.data(),
                     kRows); // -H part
    for (int r = 0; r < kRows; ++r) {
      float along = 0, curvature = 0;
      for (int i = r; i < n * kRows; i += kRows) {
        along += part[i] * gradient_[i];
        curvature -= part[i] * product[i];
      }
      Parts& parts = parts_[r * blocks_ + block];
      float& factor = offset ? parts.m : parts.d;
      const float fitted = f16_of(factor * (1 + along / curvature)), step = fitted / factor - 1;
      const float change = step * (step * curvature - 2 * along);
      if (!std::isfinite(fitted) || !(change < 0)) continue;
      add_change(r, change);
      factor = fitted;
      for (int i = r; i < n * kRows; i += kRows) gradient_[i] += step * product[i];
    }
    decode_block(block);
  }
}

void Descent::visit(int64_t block, int64_t lanes, float* gradient, float* moved) {
  first_ = block * codes_.block;
  const int64_t end = first_ + codes_.block;
  decode_block(block);
  for (int64_t i = 0; i < codes_.block; ++i) {
    std::copy_n(gradient + i * lanes, kRows, &gradient_[i * kRows]);
    std::copy_n(&decoded_[(first_ + i) * kRows], kRows, moved + i * lanes);
  }
  if (points_) {
    for (int64_t at = first_; at < end; at += 8) visit_octet(block, at);
  } else {
    for (int g = 0; g < codes_.block / codes_.group; ++g) visit_group(block, g);
    decode_block(block);
  }
  refit_factors(block);
  for (int64_t i = 0; i < codes_.block; ++i)
    for (int r = 0; r < kRows; ++r) {
      gradient[i * lanes + r] = gradient_[i * kRows + r];
      moved[i * lanes + r] = decoded_[(first_ + i) * kRows + r] - moved[i * lanes + r];
    }
}

CpuGradient::CpuGradient(const Quadratic& quadratic)
    : quadratic_(quadratic), gradient_(static_cast<size_t>(quadratic.cols * kRowLanes)) {}

std::vector<double> CpuGradient::start(std::span<const float> error) {
  first_ = gradient_;
  const int64_t cols = quadratic_.cols;
  for (size_t i = 0; i < error.size(); ++i) gradient_[i] = -quadratic_.damping * error[i];
  constexpr int64_t kStrip = 256;
  for (int64_t at = 0; at < cols; at += kStrip)
    subtract_product(quadratic_.h + at, cols, cols, &error[at * kRowLanes], std::min(kStrip, cols - at),
                     gradient_.data(), kRowLanes);
  std::vector<double> sums(kRowLanes);
  for (size_t i = 0; i < error.size(); ++i)
    sums[i % kRowLanes] -= static_cast<double>(error[i]) * static_cast<double>(gradient_[i]);
  return sums;
}

void CpuGradient::keep_second(std::span<const uint8_t> marked) {
  for (size_t i = 0; i < gradient_.size(); ++i)
    if (!marked[i % kRowLanes]) gradient_[i] = first_[i];
}

void CpuGradient::read(int64_t first, std::span<float> gradient) {
  std::copy_n(&gradient_[first * kRowLanes], gradient.size(), gradient.begin());
}

void CpuGradient::move(int64_t first, std::span<const float> moved, std::span<const float> gradient) {
  const int64_t cols = quadratic_.cols, count = std::ssize(moved) / kRowLanes, behind = first + count;
  const auto subtract = [&](int64_t k, int64_t rows) {
    subtract_product(quadratic_.h + k * cols + first, cols, rows, moved.data(), count, gradient_.data() + k * kRowLanes,
                     kRowLanes);
  };
  subtract(0, first);
  std::ranges::copy(gradient, &gradient_[first * kRowLanes]);
  subtract(behind, cols - behind);
}

} // namespace ridge::quant
