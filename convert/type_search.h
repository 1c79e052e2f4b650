// Chooses tensor types for the least loss at a given size.
//
// Loss of a type: expected squared output error relative to the squared output, Σ importance·Δw² / Σ importance·w² over
// sampled rows, times the role's sensitivity. Losses add up. A greedy search starts with the smallest types and takes
// the step that saves most loss per byte; the result is optimal except for the last steps.
#pragma once

#include "convert/requantize.h"

#include <optional>

namespace ridge::convert {

// KL divergence per loss, relative to the mean over layer matrices. `is_output`: also if tied.
double sensitivity(std::string_view tensor, bool is_output, int64_t layers);

class TensorLoss {
 public:
  // imatrix: for encoding, nullptr: none. inputs: for errors, nullptr: imatrix. The source must outlive this.
  TensorLoss(const WeightSource& source, const gguf::Imatrix* imatrix, const gguf::Imatrix* inputs);
  double in(quant::Type type, const EncodeRows& encode) const;

 private:
  const WeightSource& source_;
  std::vector<int64_t> rows_;
  std::vector<float> weights_; // [rows][cols]
  std::vector<std::vector<float>> importance_, measured_;
};

struct TypeSearch {
  std::vector<quant::Type> candidates;
  const gguf::Imatrix* inputs = nullptr; // nullptr: the imatrix
  // Measured in a type, by source (convert/sensitivity.h); missing: sensitivity(). Types between two have a
  // sensitivity between theirs, by their losses.
  struct Probe {
    quant::Type type;
    std::vector<std::optional<double>> sensitivities;
  };
  std::vector<Probe> probes;
};
std::vector<quant::Type> default_candidates();

struct TypeChoice {
  quant::Type type;
  uint64_t bytes;
  double loss;
};

// True for quantizable tensors without a type option.
bool is_searched(const WeightSource& source, const models::RecipeOptions& options);

// By source, sorted by bytes; empty if the type in plan.types is fixed.
std::vector<std::vector<TypeChoice>> measure_choices(const Requantization& plan, const TypeSearch& search,
                                                     const models::RecipeOptions& options, const gguf::Imatrix* imatrix,
                                                     const EncodeRows& encode,
                                                     const std::function<void(int64_t done, int64_t total)>& progress);

// Choice per tensor, -1: none. Total bytes ≤ `budget`; throws Error if impossible. Stops early once the total loss is
// at most `enough`.
std::vector<int> choose_types(const std::vector<std::vector<TypeChoice>>& choices, uint64_t budget, double enough = 0);

} // namespace ridge::convert
