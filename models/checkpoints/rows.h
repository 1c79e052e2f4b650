// Checkpoint layouts in rows.def.
#pragma once

#include "models/checkpoints/checkpoint.h"

namespace ridge::models::checkpoints {

#define RIDGE_CHECKPOINT(name, object) extern const Checkpoint object;
#include "models/checkpoints/rows.def"
#undef RIDGE_CHECKPOINT

} // namespace ridge::models::checkpoints
