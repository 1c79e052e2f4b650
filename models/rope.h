// Rotary position embedding: the table of angular frequencies that a file's hyperparameters describe.
#pragma once

#include "core/program.h"
#include "gguf/gguf.h"
#include "models/blocks/specs.h"
#include "models/hparams.h"

#include <compare>
#include <optional>

namespace ridge::models {

// The fields of AttentionSpec that a table depends on.
struct RopeSpec {
  core::RopeStyle style;
  int64_t dims; // rotated ones of each head, an even number
  std::optional<double> base, divisor;
  bool scaling = true, factors = true;
  RopeAxes axes = RopeAxes::one;
  int32_t span = 1; // core::RopeTable

  auto operator<=>(const RopeSpec&) const = default;
};

// Reads "<arch>.rope.*" and the tensors rope_freqs.weight, rope_factors_short.weight and rope_factors_long.weight.
// Throws Error for scaling types other than none, linear, yarn and longrope, and for values out of range.
core::RopeTable make_rope_table(const gguf::File& file, const Hparams& hparams, const RopeSpec& spec);

} // namespace ridge::models
