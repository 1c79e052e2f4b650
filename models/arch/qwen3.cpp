// qwen3: the dense Qwen 3 models. Each q and k head is normed before rope.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

static void build(Builder& b) {
  b.skip("cls.output.weight"); // scores of the rerankers
  b.transformer({.rope = Rope::split, .qk_norm = true}, [&](core::ValueId x, int64_t il) { return b.ffn(x, il); });
}

constinit const ArchitectureFile arch::qwen3 = {.build = build};

} // namespace ridge::models
