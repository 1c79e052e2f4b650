// phi3: Phi 3, 3.5 and 4 (mini). Gate and up share a tensor, long contexts have rope factors of their own. Their
// windows are not used, because files give them where the models do not slide.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

static void build(Builder& b) {
  b.transformer({.rope = Rope::split, .window = 0}, [&](core::ValueId x, int64_t il) { return b.ffn(x, il); });
}

constinit const ArchitectureFile arch::phi = {.build = build};

} // namespace ridge::models
