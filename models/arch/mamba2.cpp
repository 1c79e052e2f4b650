// mamba2: Mamba 2 and Codestral Mamba. A layer is one block.
#include "models/architecture.h"
#include "models/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  b.build({.mixer = [&](ValueId x, int64_t il) { return b.mamba2(x, il); }});
}

constinit const ArchitectureFile arch::mamba2 = {.build = build};

} // namespace ridge::models
