// Hessians of a layer's experts, each by the rows that reach it, plus a share of all experts' rows: a floor for experts
// that few or none reach.
#pragma once

#include "core/executor.h"
#include "quant/feedback/hessian.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace ridge::convert {

class ExpertHessians final : public core::InputObserver {
 public:
  // Runs the ops up to the experts' on all tokens with this observer; calls after_chunk() outside of observe().
  using Run = std::function<void(core::InputObserver& observer, const std::function<void()>& after_chunk)>;
  // matrices of [rows][cols]; rows_in_all: about as many rows will be observed. `run` is called for as many matrices at
  // once as fit into 512 MB.
  ExpertHessians(core::WeightId weight, int64_t matrices, int64_t cols, int64_t rows_in_all, quant::MakeHessian make,
                 Run run);

  // Valid until the next call. In order of matrices, the layer runs least.
  quant::Hessian& of(int64_t matrix);

  void observe(const core::Op& op, int64_t matrix, std::span<const float* const> rows) override;

 private:
  void fill(int64_t first);
  bool holds(int64_t matrix) const { return matrix >= first_ && matrix < first_ + std::ssize(hessians_); }

  const core::WeightId weight_;
  const int64_t cols_, stride_, at_once_;
  const quant::MakeHessian make_;
  const Run run_;
  int64_t first_ = 0;
  std::vector<std::unique_ptr<quant::Hessian>> hessians_; // of matrices from first_ on
  struct Seen {
    std::vector<float> rows;    // not yet added
    std::vector<float> samples; // every stride_-th row
    int64_t count = 0;
  };
  std::vector<Seen> seen_; // by matrix
};

} // namespace ridge::convert
