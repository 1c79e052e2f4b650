// Tunes what files store in floats beside the codes, the blocks' factors and the norms' weights, by the gradient of the
// whole model's divergence from the unquantized model: after rounding, which only sees one matrix at a time.
#pragma once

#include "core/program.h"
#include "quant/registry.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ridge::convert::tuning {

struct Tensor {
  quant::Type type; // with quant::BlockFactors, or F32
  int64_t rows, cols;
  std::vector<std::byte>* bytes; // in `type`
  // The unquantized tensor, to which the Program's weights point.
  const std::byte* original;
  int64_t original_row_bytes;
};

// Mean divergence of the last eighth of the texts, from which nothing is learned, in nats per token.
struct Outcome {
  double before = 0, after = 0;
  bool kept = false; // false: nothing was gained, and the tensors are as before
};

// `save` gets the state eight times; tune() continues from one of these.
struct Checkpoints {
  std::vector<std::byte> last; // empty: from the start
  std::function<void(std::vector<std::byte> state)> save;
};

// texts: of equal length, at least kFewestTexts. progress: steps done of all, also between them; it may throw.
inline constexpr size_t kFewestTexts = 4;
Outcome tune(const core::Program& program, const std::vector<Tensor>& tensors,
             const std::vector<std::vector<int32_t>>& texts,
             const std::function<void(int64_t done, int64_t total)>& progress, const Checkpoints& checkpoints = {});

} // namespace ridge::convert::tuning
