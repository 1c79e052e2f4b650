// H = Σ x xᵀ over a matrix's inputs: weight errors Δw of a row change the output by Δw H Δwᵀ.
#pragma once

#include "quant/registry.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace ridge::quant {

class Hessian {
 public:
  virtual ~Hessian() = default;

  virtual int64_t cols() const = 0;
  virtual void add(std::span<const float> inputs) = 0; // [n][cols]
  // What the unquantized model has in place of `inputs`, and what its residual stream is ahead by where the outputs are
  // added: [n][rows], or empty. Not counted by add().
  virtual void add_originals(std::span<const float> inputs, std::span<const float> originals,
                             std::span<const float> ahead) = 0;
  virtual std::vector<float> mean_squares() const = 0; // diagonal / inputs

  // Σ over rows of Δw H Δwᵀ.
  virtual double output_error(std::span<const float> errors) const = 0;

  // The weights that bring outputs nearest to the unquantized model's, after add_originals(); changes cost the damping.
  virtual std::vector<float> targets(const float* weights, int64_t rows) = 0;
  // With error feedback (quant/feedback/gptq.h). No add() afterwards.
  virtual void encode(Type type, const float* weights, int64_t rows, std::byte* out) = 0;
  // The better of feedback and importance, and descent from there (quant/feedback/rounding.h). No add() afterwards.
  virtual void round(Type type, const float* weights, int64_t rows, std::byte* out) = 0;

 protected:
  static constexpr double kDamping = 0.01; // of the mean diagonal, customary
};
using MakeHessian = std::function<std::unique_ptr<Hessian>(int64_t cols)>;

// Uses all OpenMP threads.
class CpuHessian final : public Hessian {
 public:
  explicit CpuHessian(int64_t cols) : cols_(cols), lower_(static_cast<size_t>(cols * cols)) {}

  int64_t cols() const override { return cols_; }
  double inputs() const { return inputs_; }
  void add(std::span<const float> inputs) override;
  void add_originals(std::span<const float> inputs, std::span<const float> originals,
                     std::span<const float> ahead) override;
  std::vector<float> targets(const float* weights, int64_t rows) override;
  std::vector<float> mean_squares() const override;
  double output_error(std::span<const float> errors) const override;
  void encode(Type type, const float* weights, int64_t rows, std::byte* out) override;
  void round(Type type, const float* weights, int64_t rows, std::byte* out) override;

  // H plus `damping` times its mean diagonal = M D Mᵀ, M unit upper triangular: M is the share of each error that later
  // columns compensate, D the remaining cost.
  struct Factor {
    int64_t cols;
    std::vector<float> m; // [cols][cols], above the diagonal
    std::vector<float> d; // [cols]
    float damping = 0;    // added to the diagonal
  };
  Factor factor(double damping) const;

 private:
  int64_t cols_;
  double inputs_ = 0;
  std::vector<float> lower_; // [cols][cols], lower triangle
  std::vector<float> shift_; // Σ (original - input) inputᵀ; empty: none
  std::vector<float> ahead_; // Σ ahead inputᵀ; empty: none
  std::optional<Factor> factor_;
};

} // namespace ridge::quant
