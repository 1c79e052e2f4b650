// qwen2: Qwen 1.5, 2 and 2.5. Matrices q, k and v have biases. qwen2vl: the text of Qwen2-VL and 2.5-VL.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

static void build(Builder& b) {
  const bool vision = b.hparams().architecture() == "qwen2vl";
  const AttentionSpec attention = {.rope = Rope::split, .rope_axes = vision ? RopeAxes::in_order : RopeAxes::one};
  b.build({.mixer = [&](core::ValueId x, int64_t il) { return b.attention(x, il, attention); },
           .ffn = [&](core::ValueId x, int64_t il) { return b.ffn(x, il); },
           .output_bias = !vision});
}

constinit const ArchitectureFile arch::qwen2 = {.build = build};

} // namespace ridge::models
