// Rounding by descent (descent.h): the better of error feedback and importance, and descent from there.
#pragma once

#include "core/host_device/round_up.h"
#include "quant/feedback/descent.h"
#include "quant/feedback/hessian.h"

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace ridge::quant {

using MakeGradient = std::function<std::unique_ptr<Gradient>(int64_t lanes)>;

// All rows of a matrix, block by block.
class Rounding {
 public:
  // All must outlive it. The gradient has lanes() lanes.
  Rounding(Type type, const Quadratic& quadratic, const float* weights, int64_t rows, Gradient& gradient);
  static int64_t lanes(int64_t rows) { return core::round_up(rows, Descent::kRows); }

  // parts: [rows][blocks of a row], encoded weights.
  void start(std::span<const Parts> parts);
  // Takes each row that has less error.
  void take_better(std::span<const Parts> parts);
  // Visits every block once; no row's error grows. false: not worth another one.
  bool pass();
  double error() const;
  const Parts& parts(int64_t row, int64_t block) const {
    return descents_[row / Descent::kRows].parts(static_cast<int>(row % Descent::kRows), block);
  }

 private:
  void start(std::vector<Descent>& descents, std::span<const Parts> parts);

  const Type type_;
  const Quadratic& quadratic_;
  const float* const weights_;
  const int64_t rows_, lanes_;
  const int block_;
  Gradient& gradient_;
  std::vector<Descent> descents_; // by kRows rows
  std::vector<uint8_t> active_;   // whose last pass was worthwhile
};

// The better of error feedback and of a search with `importance`, per row, and descent from there. make_gradient: of
// all rows at once; null: on the CPU, some rows at a time.
void encode_rounded(Type type, const float* weights, int64_t rows, const Quadratic& quadratic,
                    const CpuHessian::Factor& factor, std::span<const float> importance, std::byte* out,
                    const MakeGradient& make_gradient = nullptr);

} // namespace ridge::quant
