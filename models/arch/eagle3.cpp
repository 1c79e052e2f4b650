// EAGLE-3 draft heads (models/blocks/eagle.cpp).
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

static void build(Builder& b) { b.eagle_head({.rope = Rope::adjacent}); }

constinit const ArchitectureFile arch::eagle3 = {.build = build};

} // namespace ridge::models
