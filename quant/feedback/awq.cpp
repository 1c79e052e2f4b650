#include "quant/feedback/awq.h"

#include "quant/encode/encode.h"

#include <algorithm>
#include <cmath>

namespace ridge::quant {

AwqScales search_scales(std::span<const AwqMatrix> matrices, const Hessian& hessian, std::span<const int64_t> group) {
  constexpr int kSteps = 20;
  const int64_t cols = hessian.cols();
  const std::vector<float> mean_squares = hessian.mean_squares();
  std::vector<double> energy(mean_squares.begin(), mean_squares.end());
  if (!group.empty()) {
    std::vector<double> sum(static_cast<size_t>(*std::ranges::max_element(group)) + 1);
    for (int64_t j = 0; j < cols; ++j) sum[group[j]] += energy[j];
    for (int64_t j = 0; j < cols; ++j) energy[j] = sum[group[j]];
  }
  const double largest = *std::ranges::max_element(energy);
  AwqScales best{{}, 0, 0};
  if (!(largest > 0)) return best;

  std::vector<float> scale(static_cast<size_t>(cols)), importance(scale.size()), scaled, decoded;
  std::vector<std::byte> packed;
  for (int step = 0; step < kSteps; ++step) {
    double low = INFINITY, high = 0;
    for (int64_t j = 0; j < cols; ++j) {
      scale[j] = static_cast<float>(std::pow(std::max(energy[j] / largest, 1e-8), 0.5 * step / kSteps));
      low = std::min<double>(low, scale[j]);
      high = std::max<double>(high, scale[j]);
    }
    for (int64_t j = 0; j < cols; ++j) {
      scale[j] = static_cast<float>(scale[j] / std::sqrt(low * high));
      importance[j] = mean_squares[j] / (scale[j] * scale[j]);
    }
    double error = 0;
    for (const AwqMatrix& matrix : matrices) {
      const int64_t rows = std::ssize(matrix.weights) / cols;
      scaled.resize(matrix.weights.size());
      decoded.resize(matrix.weights.size());
      for (int64_t i = 0; i < rows * cols; ++i) scaled[i] = matrix.weights[i] * scale[i % cols];
      const FormatInfo& info = format(matrix.type);
      packed.resize(static_cast<size_t>(rows * info.row_bytes(cols)));
      encode_rows_parallel(matrix.type, scaled.data(), rows, cols, importance, packed.data());
      info.decode(packed.data(), rows * cols, decoded.data());
      for (int64_t i = 0; i < rows * cols; ++i) decoded[i] = decoded[i] / scale[i % cols] - matrix.weights[i];
      error += hessian.output_error(decoded);
    }
    if (step == 0) best.plain = best.error = error;
    if (error < best.error) {
      best.error = error;
      best.scale = scale;
    }
  }
  return best;
}

} // namespace ridge::quant
