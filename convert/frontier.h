// What a model loses at which size: every recipe, and the best mix of types at each one's size, measured on a text.
#pragma once

#include "convert/quantize.h"
#include "measure/divergence.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::convert {

struct FrontierPoint {
  std::string name; // of a recipe; empty: a mix
  uint64_t bytes = 0;
  double bits_per_weight = 0;
  measure::Estimate divergence; // nats per token
  double expected = 0;          // of a mix, by the sum over its tensors
  bool best = false;            // nothing else is as small and diverges less
};

// What a tensor would cost in each type: those that a mix may take.
struct TensorCosts {
  struct Choice {
    std::string type;
    uint64_t bytes;
    double divergence; // nats per token, expected
  };
  std::string name;
  std::vector<Choice> choices; // by ascending bytes
};

struct Frontier {
  std::vector<FrontierPoint> points; // by ascending bytes
  std::vector<TensorCosts> tensors;  // in file order
  int64_t scored_tokens = 0;
};

// Explores the request's file, with its method and importance matrix, on its calibration text or, without one, on a
// text that the model writes itself. Writes nothing. Throws Error where the model cannot run.
Frontier explore(const core::QuantizeRequest& request, const QuantizeSteps& steps);

} // namespace ridge::convert
