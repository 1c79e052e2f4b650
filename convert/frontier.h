// Size versus loss: all recipes, and the best mix at each size.
#pragma once

#include "convert/quantize.h"
#include "measure/divergence.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ridge::convert {

struct FrontierPoint {
  std::string name; // empty: a mix
  uint64_t bytes = 0;
  double bits_per_weight = 0;
  measure::Estimate divergence;
  double expected = 0;         // of a mix: sum over tensors
  std::optional<double> plain; // divergence without the method
  bool best = false;           // Pareto-optimal
};

struct TensorCosts {
  struct Choice {
    std::string type;
    uint64_t bytes;
    double divergence;
  };
  std::string name;
  std::vector<Choice> choices;
};

struct Frontier {
  std::vector<FrontierPoint> points; // by ascending bytes
  std::vector<TensorCosts> tensors;
  int64_t scored_tokens = 0;
};

// Uses the calibration text or text sampled from the model. Writes nothing. Throws Error if the model cannot run.
Frontier explore(const api::QuantizeRequest& request, const QuantizeSteps& steps);

} // namespace ridge::convert
