#include "support/naive.h"

#include "core/half.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ridge::tests {
namespace {

double as_half(double value) { return core::f32_from_f16(core::f16_from_f32(static_cast<float>(value))); }

double as_bfloat(double value) { return core::f32_from_bf16(core::bf16_from_f32(static_cast<float>(value))); }

// By the orthonormal Hadamard matrix, whose elements have the sign of the parity of row & column.
void rotate(double* x) {
  double y[32] = {};
  for (uint32_t i = 0; i < 32; ++i)
    for (uint32_t j = 0; j < 32; ++j) y[i] += (std::popcount(i & j) % 2 ? -x[j] : x[j]) / std::sqrt(32);
  std::ranges::copy(y, x);
}

// Even levels from the farthest element, which gets the outermost negative one, on.
void round_evenly(double* x, int levels) {
  double farthest = 0;
  for (int i = 0; i < 32; ++i)
    if (std::abs(x[i]) > std::abs(farthest)) farthest = x[i];
  const double step = farthest / (-levels / 2.0);
  for (int i = 0; i < 32 && step != 0; ++i)
    x[i] = std::clamp(std::nearbyint(x[i] / step), -levels / 2.0, levels / 2.0 - 1) * as_half(step);
}

// Even levels from the smallest to the largest.
void round_in_range(double* x, int levels) {
  const double least = as_half(*std::min_element(x, x + 32)),
               step = (*std::max_element(x, x + 32) - *std::min_element(x, x + 32)) / (levels - 1);
  for (int i = 0; i < 32; ++i)
    x[i] = step > 0 ? std::clamp<double>(std::nearbyint((x[i] - least) / step), 0, levels - 1) * as_half(step) + least
                    : least;
}

void round_to_table(double* x) {
  constexpr double kLevels[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  double farthest = 0;
  for (int i = 0; i < 32; ++i)
    if (std::abs(x[i]) > std::abs(farthest)) farthest = x[i];
  const double step = farthest / -127;
  for (int i = 0; i < 32 && step != 0; ++i)
    x[i] = *std::ranges::min_element(kLevels, {}, [&](double level) { return std::abs(level - x[i] / step); }) *
           as_half(step);
}

} // namespace

Naive::Row stored(Naive::Row row, core::KvType type) {
  using enum core::KvType;
  if (type == f16)
    for (double& e : row) e = as_half(e);
  if (type == bf16)
    for (double& e : row) e = as_bfloat(e);
  for (size_t first = 0; core::format_of(type).rotated && first < row.size(); first += 32) {
    double* x = row.data() + first;
    rotate(x);
    if (type == q5_0 || type == q4_0) round_evenly(x, type == q5_0 ? 32 : 16);
    if (type == q5_1 || type == q4_1) round_in_range(x, type == q5_1 ? 32 : 16);
    if (type == iq4_nl) round_to_table(x);
    rotate(x); // its own inverse
  }
  if (type == core::KvType::q8_0)
    for (size_t first = 0; first < row.size(); first += 32) {
      double largest = 0;
      for (size_t i = first; i < first + 32; ++i) largest = std::max(largest, std::abs(row[i]));
      for (size_t i = first; i < first + 32 && largest > 0; ++i)
        row[i] = std::nearbyint(row[i] / largest * 127) * as_half(largest / 127);
    }
  return row;
}

void naive_kv_store(Naive& naive, const core::Op& op) {
  const int32_t layer = std::get<core::KvParams>(op.params).layer;
  for (size_t t = 0; t < naive.value(op.inputs[0]).size(); ++t) {
    std::vector<Naive::Cached>& history = naive.history(layer, naive.stream(t));
    history.resize(naive.batch().positions[t]); // rewinds
    history.push_back({stored(naive.in(op, 0, t), naive.k_type()), stored(naive.in(op, 1, t), naive.v_type())});
  }
}

} // namespace ridge::tests
