// Rope tables from a file's hyperparameters.
#pragma once

#include "core/program.h"
#include "gguf/gguf.h"
#include "models/blocks/specs.h"
#include "models/file/hparams.h"

#include <compare>
#include <optional>

namespace ridge::models {

struct RopeSpec {
  core::RopeStyle style;
  int64_t dims;
  std::optional<double> base, divisor;
  bool scaling = true, factors = true;
  RopeAxes axes = RopeAxes::one;
  int32_t span = 1;

  auto operator<=>(const RopeSpec&) const = default;
};

// Throws Error for scaling types other than none, linear, yarn and longrope, and for values out of range.
core::RopeTable make_rope_table(const gguf::File& file, const Hparams& hparams, const RopeSpec& spec);

} // namespace ridge::models
