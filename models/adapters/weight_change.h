// What adapters add to the rows of a model's tensor, for writing a model with adapters merged into it.
#pragma once

#include "models/adapters/add_adapters.h"

#include <span>
#include <string>
#include <vector>

namespace ridge::models {

class WeightChange {
 public:
  // `tensor`: of the model, [cols, rows, count]. Throws Error where an adapter is for another shape.
  WeightChange(std::span<const ScaledAdapter> adapters, const gguf::File& model, const std::string& tensor,
               int64_t cols, int64_t rows, int64_t count);

  bool empty() const { return parts_.empty(); } // none of the adapters changes the tensor
  // To rows [first, first + n), counted through all matrices. Threads may share a change.
  void add_to(int64_t first, int64_t n, float* rows) const;

 private:
  struct Part { // row r gets scale * Σ_k factors[r][k] * basis[k of the row's matrix]
    const gguf::Tensor* factors;
    std::vector<float> basis; // [matrices][rank][cols]
    int64_t rank;
    float scale;
  };
  int64_t cols_, rows_;
  std::vector<Part> parts_;
};

// Throws Error for adapters that cannot be merged into the model: of another architecture, with a tensor that the model
// does not have or that makes two matrices, or activated ones.
void check_merging(std::span<const ScaledAdapter> adapters, const gguf::File& model);

} // namespace ridge::models
