// H = Σ x xᵀ over the inputs x of a matrix: what an error in each weight does to the output, alone and together with
// errors in others. For a row w of the matrix, Σ over x of (Δw·x)² = Δw H Δwᵀ.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ridge::quant {

class Hessian {
 public:
  explicit Hessian(int64_t cols) : cols_(cols), lower_(static_cast<size_t>(cols * cols)) {}

  int64_t cols() const { return cols_; }
  double inputs() const { return inputs_; }
  void add(std::span<const float> inputs); // [n][cols]; all OpenMP threads
  std::vector<float> mean_squares() const; // diagonal / inputs: what an importance matrix holds

  // Δw H Δwᵀ, summed over the rows of `errors` [rows][cols].
  double output_error(std::span<const float> errors) const;

  // H with `damping` times its mean diagonal added is M D Mᵀ, M unit upper triangular. Where columns are rounded from
  // the first to the last, M says how much of each error the later ones take up, and D how much of it then remains.
  struct Factor {
    int64_t cols;
    std::vector<float> m; // [cols][cols], above the diagonal
    std::vector<float> d; // [cols]
  };
  Factor factor(double damping) const;

 private:
  int64_t cols_;
  double inputs_ = 0;
  std::vector<float> lower_; // [cols][cols], on and below the diagonal
};

} // namespace ridge::quant
