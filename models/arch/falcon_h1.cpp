// falcon-h1: Falcon-H1. Every layer has attention and Mamba 2 side by side.
#include "models/architecture.h"
#include "models/blocks.h"

#include <fmt/format.h>

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 const ValueId attended =
                     b.attention(x, il, {.rope = Rope::split, .rope_factors = false, .output_bias = false});
                 return b.add(attended, b.mamba2(x, il), fmt::format("blk.{}.mixer_add", il));
               },
           .ffn = [&](ValueId x, int64_t il) { return b.ffn(x, il); }});
}

constinit const ArchitectureFile arch::falcon_h1 = {.build = build};

} // namespace ridge::models
