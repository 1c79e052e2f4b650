// The type of each tensor for the least loss at a given size, chosen by measurement.
//
// A sample of each tensor's rows is encoded in every candidate type. The loss is the expected squared error of the
// tensor's output relative to the output's square, Σ importance·Δw² / Σ importance·w² (importance is 1 without an
// importance matrix), times the sensitivity of the model to errors in tensors of that role. Losses of tensors add up.
// The search begins with the smallest type for every tensor and takes, again and again, the step that saves most loss
// per byte. That is the optimum except for the last steps.
#pragma once

#include "convert/requantize.h"

#include <optional>

namespace ridge::convert {

// How much a relative error in a tensor of this role changes the model's logits: KL divergence per loss, relative to
// the mean over the matrices of layers. `is_output`: the tensor is the output matrix, perhaps as the embedding table,
// too.
double sensitivity(std::string_view tensor, bool is_output, int64_t layers);

// A tensor's loss in other types, over a sample of its rows.
class TensorLoss {
 public:
  // imatrix: importance when encoding, null: none. inputs: when measuring, null: that of the imatrix. The source must
  // outlive this.
  TensorLoss(const WeightSource& source, const gguf::Imatrix* imatrix, const gguf::Imatrix* inputs);
  double in(quant::Type type, const EncodeRows& encode) const;

 private:
  const WeightSource& source_;
  std::vector<int64_t> rows_;
  std::vector<float> weights_;                            // [rows][cols]
  std::vector<std::vector<float>> importance_, measured_; // of columns, by matrix
};

struct TypeSearch {
  std::vector<quant::Type> candidates;   // empty: default_candidates()
  const gguf::Imatrix* inputs = nullptr; // by which errors are weighed; null: the imatrix
  // By source of the plan, as measured (convert/sensitivity.h); nothing or empty: sensitivity() counts.
  std::vector<std::optional<double>> sensitivities;
};
std::vector<quant::Type> default_candidates();

struct TypeChoice {
  quant::Type type;
  uint64_t bytes;
  double loss;
};

// Whether the search chooses the type of a tensor: it is quantizable, and no option names its type.
bool is_searched(const WeightSource& source, const models::RecipeOptions& options);

// The choices for each source of the plan, by ascending bytes; empty for those that keep their type of plan.types.
std::vector<std::vector<TypeChoice>> measure_choices(const Requantization& plan, const TypeSearch& search,
                                                     const models::RecipeOptions& options, const gguf::Imatrix* imatrix,
                                                     const EncodeRows& encode,
                                                     const std::function<void(int64_t done, int64_t total)>& progress);

// The index of the choice for each tensor, -1 if it has none. The sum of bytes is at most `budget`. Throws Error if the
// smallest choices together are larger. No more is bought once the losses together are at most `enough`.
std::vector<int> choose_types(const std::vector<std::vector<TypeChoice>>& choices, uint64_t budget, double enough = 0);

} // namespace ridge::convert
