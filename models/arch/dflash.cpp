// DFlash draft heads (models/blocks/dflash.cpp).
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

static void build(Builder& b) { b.dflash_head(); }

constinit const ArchitectureFile arch::dflash = {.build = build};

} // namespace ridge::models
