// Rounding by descent: from encoded rows, codes and scales change one after the other, each to what lowers the output's
// error Δw H Δwᵀ most while the others stay. H as in quant/feedback/hessian.h.
//
// Rows run in lanes. Results do not depend on threads or instruction set.
#pragma once

#include "quant/feedback/block_codes.h"
#include "quant/feedback/hessian.h"
#include "quant/feedback/lattice_feedback.h"

#include <array>
#include <span>
#include <vector>

namespace ridge::quant {

// H plus damping on the diagonal.
struct Quadratic {
  int64_t cols;
  const float* h; // [cols][cols], symmetric
  float damping;
};

class Descent {
 public:
  static constexpr int kRows = PointSearch::kRows;

  // Both must outlive it.
  Descent(Type type, const Quadratic& quadratic);

  // rows <= kRows; parts: [rows][blocks of a row], encoded `weights`.
  void start(const float* weights, int64_t rows, std::span<const Parts> parts);
  // Takes each row of `other` that has less error.
  void take_better(const Descent& other);
  // Visits every block once; no row's error grows.
  void pass();
  double error(int row) const { return error_[row]; }
  double error() const; // of all rows
  const Parts& parts(int row, int64_t block) const { return parts_[row * blocks_ + block]; }

 private:
  using Row = std::array<float, kRows>;
  struct Trial {
    std::vector<float> decoded, gradient, code; // [weight][kRows]
    Row change, scale, offset;
  };
  void decode_block(int64_t block);
  void try_codes(int64_t at, Trial& trial) const;
  void visit_group(int64_t block, int g);
  void visit_octet(int64_t block, int64_t at);
  void refit_factors(int64_t block);
  void add_change(int lane, float change) { error_[lane] += static_cast<double>(change); }

  const Quadratic& quadratic_;
  const BlockCodes& codes_;
  const PointSearch* points_;
  int64_t rows_ = 0, blocks_;
  std::vector<Parts> parts_;              // [kRows][blocks_]
  std::vector<float> decoded_, gradient_; // [cols][kRows]; gradient: (w - decoded) H
  std::vector<float> offset_, scale_;     // of a block's weights; scale_: codebooks, per 16
  std::array<double, kRows> error_{};
  Trial best_, trial_;
};

// The better of error feedback and of a search with `importance`, per row, and descent from there.
void encode_rounded(Type type, const float* weights, int64_t rows, const Quadratic& quadratic,
                    const CpuHessian::Factor& factor, std::span<const float> importance, std::byte* out);

} // namespace ridge::quant
