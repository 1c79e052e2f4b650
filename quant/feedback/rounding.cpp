#include "quant/feedback/rounding.h"

#include "quant/feedback/gptq.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace ridge::quant {
namespace {

constexpr int kMaxPasses = 4;
constexpr double kWorthwhile = 0.005; // a pass that lowers the error by less is the last

} // namespace

Rounding::Rounding(Type type, const Quadratic& quadratic, const float* weights, int64_t rows, Gradient& gradient)
    : type_(type), quadratic_(quadratic), weights_(weights), rows_(rows), lanes_(lanes(rows)),
      block_(BlockCodes::of(type)->block), gradient_(gradient),
      descents_(static_cast<size_t>(lanes_ / Descent::kRows), Descent(type, quadratic)), active_(descents_.size(), 1) {}

void Rounding::start(std::vector<Descent>& descents, std::span<const Parts> parts) {
  const int64_t cols = quadratic_.cols, blocks = cols / block_;
  const auto error = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(cols * lanes_));
#pragma omp parallel for schedule(dynamic, 1)
  for (size_t g = 0; g < descents.size(); ++g) {
    const int64_t first = static_cast<int64_t>(g) * Descent::kRows,
                  count = std::min<int64_t>(Descent::kRows, rows_ - first);
    descents[g].start(count, parts.subspan(first * blocks, count * blocks));
    for (int64_t k = 0; k < cols; ++k)
      for (int r = 0; r < Descent::kRows; ++r)
        error[k * lanes_ + first + r] =
            descents[g].decoded(k, r) - weights_[(first + std::min<int64_t>(r, count - 1)) * cols + k];
  }
  const std::vector<double> errors = gradient_.start({error.get(), static_cast<size_t>(cols * lanes_)});
  for (int64_t lane = 0; lane < lanes_; ++lane)
    descents[lane / Descent::kRows].set_error(static_cast<int>(lane % Descent::kRows), errors[lane]);
}

void Rounding::start(std::span<const Parts> parts) { start(descents_, parts); }

void Rounding::take_better(std::span<const Parts> parts) {
  std::vector<Descent> others(descents_.size(), Descent(type_, quadratic_));
  start(others, parts);
  std::vector<uint8_t> better(static_cast<size_t>(lanes_));
#pragma omp parallel for schedule(dynamic, 1)
  for (size_t g = 0; g < others.size(); ++g)
    for (int r = 0; r < Descent::kRows; ++r) {
      if (!(others[g].error(r) < descents_[g].error(r))) continue;
      descents_[g].take_row(r, others[g]);
      better[g * Descent::kRows + r] = 1;
    }
  gradient_.keep_second(better);
}

bool Rounding::pass() {
  std::vector<float> gradient(static_cast<size_t>(block_ * lanes_)), moved(gradient.size());
  std::vector<double> before;
  for (const Descent& descent : descents_) before.push_back(descent.error());
  for (int64_t block = 0; block < quadratic_.cols / block_; ++block) {
    gradient_.read(block * block_, gradient);
#pragma omp parallel for schedule(dynamic, 1)
    for (size_t g = 0; g < descents_.size(); ++g) {
      const size_t lane = g * Descent::kRows;
      if (active_[g])
        descents_[g].visit(block, lanes_, &gradient[lane], &moved[lane]);
      else
        for (int64_t i = 0; i < block_; ++i) std::fill_n(&moved[i * lanes_ + lane], Descent::kRows, 0.0f);
    }
    gradient_.move(block * block_, moved, gradient);
  }
  for (size_t g = 0; g < descents_.size(); ++g)
    active_[g] = active_[g] && descents_[g].error() < (1 - kWorthwhile) * before[g];
  return std::ranges::any_of(active_, std::identity{});
}

double Rounding::error() const {
  return std::accumulate(descents_.begin(), descents_.end(), 0.0,
                         [](double sum, const Descent& descent) { return sum + descent.error(); });
}

void encode_rounded(Type type, const float* weights, int64_t rows, const Quadratic& quadratic,
                    const CpuHessian::Factor& factor, std::span<const float> importance, std::byte* out,
                    const MakeGradient& make_gradient) {
  const BlockCodes* codes = BlockCodes::of(type);
  const int64_t cols = quadratic.cols;
  if (!codes || factor.cols != cols || std::ssize(importance) != cols)
    throw std::logic_error("encode_rounded: no codes, or another matrix's factor");
  const FormatInfo& info = format(type);
  const int64_t blocks = cols / codes->block, row_bytes = info.row_bytes(cols);
  const auto round = [&](int64_t first, int64_t count, Gradient& gradient) {
    const float* some = weights + first * cols;
    std::vector<Parts> fed(static_cast<size_t>(count * blocks)), searched(fed.size());
    for_rows(count, kFeedbackRows, [&](int64_t at, int64_t n) {
      std::ranges::copy(feedback_parts(type, some + at * cols, n, cols, factor), &fed[at * blocks]);
      std::ranges::copy(search_parts(type, some + at * cols, n, cols, importance), &searched[at * blocks]);
    });
    Rounding rounding(type, quadratic, some, count, gradient);
    rounding.start(fed);
    rounding.take_better(searched);
    for (int i = 0; i < kMaxPasses && rounding.pass(); ++i) {
    }
    for_rows(count, Descent::kRows, [&](int64_t at, int64_t n) {
      for (int64_t r = at; r < at + n; ++r)
        for (int64_t block = 0; block < blocks; ++block)
          codes->pack(rounding.parts(r, block), out + (first + r) * row_bytes + block * info.block_bytes);
    });
  };
  if (make_gradient) {
    const std::unique_ptr<Gradient> gradient = make_gradient(Rounding::lanes(rows));
    round(0, rows, *gradient);
  } else {
    for_rows(rows, Descent::kRows, [&](int64_t first, int64_t count) {
      CpuGradient gradient(quadratic);
      round(first, count, gradient);
    });
  }
}

void CpuHessian::encode(Type type, const float* weights, int64_t rows, std::byte* out) {
  if (!factor_) factor_ = factor(kDamping);
  encode_with_feedback(type, weights, rows, cols_, *factor_, out);
}

void CpuHessian::round(Type type, const float* weights, int64_t rows, std::byte* out) {
  if (!factor_) factor_ = factor(kDamping);
  for (int64_t i = 0; i < cols_; ++i)
    for (int64_t j = 0; j < i; ++j) lower_[j * cols_ + i] = lower_[i * cols_ + j];
  encode_rounded(type, weights, rows, {cols_, lower_.data(), factor_->damping}, *factor_, mean_squares(), out);
}

} // namespace ridge::quant
