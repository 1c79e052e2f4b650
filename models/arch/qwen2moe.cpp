// qwen2moe: Qwen 1.5 and 2 with experts (A2.7B, 57B-A14B) and a shared one with a gate. Shares do not sum to 1.
#include "models/architecture.h"
#include "models/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  b.transformer({.rope = Rope::split}, [&](ValueId x, int64_t il) {
    return b.experts(x, il, {.normalize = false, .gate = core::Gate::softmax, .shared = true});
  });
}

constinit const ArchitectureFile arch::qwen2moe = {.build = build};

} // namespace ridge::models
