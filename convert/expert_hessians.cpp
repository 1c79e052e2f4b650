#include "convert/expert_hessians.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ridge::convert {
namespace {

constexpr int64_t kSamples = 256;                  // of all experts' rows
constexpr float kFloorRows = 32;                   // that the samples count as
constexpr int64_t kBytesAtOnce = int64_t{1} << 29; // factors take as much again

} // namespace

ExpertHessians::ExpertHessians(core::WeightId weight, int64_t matrices, int64_t cols, int64_t rows_in_all,
                               quant::MakeHessian make, Run run)
    : weight_(weight), cols_(cols), stride_(std::max<int64_t>(1, rows_in_all / kSamples)),
      at_once_(std::clamp<int64_t>(kBytesAtOnce / (4 * cols * cols), 1, matrices)), make_(std::move(make)),
      run_(std::move(run)), seen_(static_cast<size_t>(matrices)) {}

quant::Hessian& ExpertHessians::of(int64_t matrix) {
  if (!holds(matrix)) fill(matrix);
  return *hessians_[static_cast<size_t>(matrix - first_)];
}

void ExpertHessians::fill(int64_t first) {
  first_ = first;
  hessians_.clear();
  while (std::ssize(hessians_) < std::min(at_once_, std::ssize(seen_) - first)) hessians_.push_back(make_(cols_));
  for (Seen& seen : seen_) seen = {};
  run_(*this, [&] {
    for (int64_t i = 0; i < std::ssize(hessians_); ++i) {
      std::vector<float>& rows = seen_[static_cast<size_t>(first_ + i)].rows;
      if (!rows.empty()) hessians_[static_cast<size_t>(i)]->add(rows);
      rows.clear();
    }
  });
  std::vector<float> samples;
  for (const Seen& seen : seen_) samples.insert(samples.end(), seen.samples.begin(), seen.samples.end());
  if (samples.empty()) return;
  const float factor = std::sqrt(kFloorRows * static_cast<float>(cols_) / static_cast<float>(samples.size()));
  for (float& x : samples) x *= factor;
  for (const auto& hessian : hessians_) hessian->add(samples);
}

void ExpertHessians::observe(const core::Op& op, int64_t matrix, std::span<const float* const> rows) {
  if (op.weights.empty() || op.weights[0] != weight_) return;
  Seen& seen = seen_[static_cast<size_t>(matrix)];
  for (const float* x : rows) {
    if (holds(matrix)) seen.rows.insert(seen.rows.end(), x, x + cols_);
    if (seen.count++ % stride_ == 0) seen.samples.insert(seen.samples.end(), x, x + cols_);
  }
}

} // namespace ridge::convert
