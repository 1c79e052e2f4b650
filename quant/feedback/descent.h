// Descent from encoded rows: codes and scales change one after the other, each to what lowers the output's error
// Δw H Δwᵀ most while the others stay. H as in quant/feedback/hessian.h.
//
// Some rows run in lanes. Results do not depend on threads or instruction set.
#pragma once

#include "quant/feedback/block_codes.h"
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

// The gradient of many rows, -(H + damping) error, kept where products with H are fast. Arrays are [columns][lanes].
class Gradient {
 public:
  virtual ~Gradient() = default;
  // Returns each lane's error (H + damping) errorᵀ.
  virtual std::vector<double> start(std::span<const float> error) = 0;
  // After two starts: lanes that are not marked return to the first one's gradient.
  virtual void keep_second(std::span<const uint8_t> marked) = 0;
  virtual void read(int64_t first, std::span<float> gradient) = 0; // of columns first, first + 1, …
  // Errors of columns first, first + 1, … have changed by `moved`, and their gradients are these now.
  virtual void move(int64_t first, std::span<const float> moved, std::span<const float> gradient) = 0;
};

// Up to kRows rows.
class Descent {
 public:
  static constexpr int kRows = PointSearch::kRows;

  // The quadratic must outlive it.
  Descent(Type type, const Quadratic& quadratic);

  // rows <= kRows; parts: [rows][blocks of a row].
  void start(int64_t rows, std::span<const Parts> parts);
  void take_row(int row, const Descent& other);
  // Changes a block's codes and factors; gradient [block][lanes] follows, moved gets what weights changed by. The
  // arrays begin at this Descent's lanes.
  void visit(int64_t block, int64_t lanes, float* gradient, float* moved);
  void set_error(int row, double error) { error_[row] = error; }
  double error(int row) const { return error_[row]; }
  double error() const; // of all rows
  const Parts& parts(int row, int64_t block) const { return parts_[row * blocks_ + block]; }
  float decoded(int64_t column, int row) const { return decoded_[column * kRows + row]; }

 private:
  using Row = std::array<float, kRows>;
  struct Trial {
    std::vector<float> moved, code; // [weight][kRows]
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
  int64_t rows_ = 0, blocks_, first_ = 0; // first_: column of the block that is visited
  std::vector<Parts> parts_;              // [kRows][blocks_], since start()
  std::vector<float> decoded_;            // [cols][kRows], since start()
  std::vector<float> gradient_;           // of the block
  std::vector<float> offset_, scale_;     // of a block's weights; scale_: codebooks, per 16
  std::array<double, kRows> error_{};
  Trial best_, trial_;
};

// On the CPU, of Descent::kRows lanes.
class CpuGradient final : public Gradient {
 public:
  explicit CpuGradient(const Quadratic& quadratic);
  std::vector<double> start(std::span<const float> error) override;
  void keep_second(std::span<const uint8_t> marked) override;
  void read(int64_t first, std::span<float> gradient) override;
  void move(int64_t first, std::span<const float> moved, std::span<const float> gradient) override;

 private:
  const Quadratic& quadratic_;
  std::vector<float> gradient_, first_;
};

} // namespace ridge::quant
