// PLaMo 1.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const AttentionSpec attention = {.rope = Rope::split, .rope_factors = false, .output_bias = false};
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::attention(b, x, il, attention); },
           .ffn = [&](ValueId x, int64_t il) { return blocks::ffn(b, x, il); },
           .ffn_norm = "",
           .parallel = true});
}

constinit const ArchitectureFile arch::plamo = {.build = build};

} // namespace ridge::models
