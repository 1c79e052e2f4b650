// Layouts of checkpoints of architectures that share a file with others: the objects that models/checkpoints/rows.def
// names.
#pragma once

#include "models/checkpoint.h"

namespace ridge::models::checkpoints {

#define RIDGE_CHECKPOINT(name, object) extern const Checkpoint object;
#include "models/checkpoints/rows.def"
#undef RIDGE_CHECKPOINT

} // namespace ridge::models::checkpoints
