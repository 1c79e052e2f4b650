// qwen2: Qwen 1.5, 2 and 2.5. Matrices q, k and v have biases.
#include "models/architecture.h"
#include "models/blocks.h"

namespace ridge::models {

static void build(Builder& b) {
  b.transformer({.rope = Rope::split}, [&](core::ValueId x, int64_t il) { return b.ffn(x, il); });
}

constinit const ArchitectureFile arch::qwen2 = {.build = build, .checkpoint = {.qkv_bias = true}};

} // namespace ridge::models
