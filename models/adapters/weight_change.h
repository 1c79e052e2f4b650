// Changes that adapters make to a tensor's rows, for merging them into the model.
#pragma once

#include "models/adapters/add_adapters.h"

#include <span>
#include <string>
#include <vector>

namespace ridge::models {

class WeightChange {
 public:
  // Throws Error if an adapter is for another shape.
  WeightChange(std::span<const ScaledAdapter> adapters, const gguf::File& model, const std::string& tensor,
               int64_t cols, int64_t rows, int64_t count);

  bool empty() const { return parts_.empty(); }
  // Rows are counted across all matrices. Thread-safe.
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

// Throws Error for adapters that cannot be merged: of another architecture, with unknown tensors or ones used by two
// matrices, or activated.
void check_merging(std::span<const ScaledAdapter> adapters, const gguf::File& model);

} // namespace ridge::models
