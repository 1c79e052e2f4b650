// The type of each tensor for the least loss at a given size, chosen by measurement.
//
// Each tensor is encoded in every candidate type on a sample of its rows. What it loses is the expected squared error
// of its output relative to the output's own square, Σ importance·Δw² / Σ importance·w² (importance 1 without an
// importance matrix), times how much the model's answer suffers from that in a matrix of its role. These losses add up.
// Then types are bought: from the smallest for all, always the step that saves most loss per byte, which is the optimum
// but for the last steps.
#pragma once

#include "convert/requantize.h"

namespace ridge::convert {

// How much a relative error in a tensor of this role changes a model's answer (divergence per loss, as a multiple of
// the mean over the matrices of layers). `is_output`: the embedding table, where it is the output matrix, too.
double sensitivity(std::string_view tensor, bool is_output, int64_t layers);

struct TypeSearch {
  std::vector<quant::Type> candidates; // empty: default_candidates()
  int64_t sample_weights = 1 << 16;    // per tensor and candidate
};
std::vector<quant::Type> default_candidates();

struct TypeChoice {
  quant::Type type;
  uint64_t bytes;
  double loss;
};

// Whether the type of a tensor is to be chosen: it is quantizable, and no option names its type.
bool is_searched(const WeightSource& source, const models::RecipeOptions& options);

// For each source of the plan the choices, by ascending bytes; empty: is_searched says no, it keeps plan.types.
std::vector<std::vector<TypeChoice>> measure_choices(const Requantization& plan, const TypeSearch& search,
                                                     const models::RecipeOptions& options, const gguf::Imatrix* imatrix,
                                                     const EncodeRows& encode,
                                                     const std::function<void(int64_t done, int64_t total)>& progress);

// Index of the choice for each tensor, such that the sum of bytes is at most `budget`; -1 where there are none. Throws
// Error where even the smallest are too large.
std::vector<int> choose_types(const std::vector<std::vector<TypeChoice>>& choices, uint64_t budget);

} // namespace ridge::convert
