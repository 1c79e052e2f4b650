// What files of draft heads say about themselves.
#pragma once

#include "gguf/gguf.h"

#include <cstdint>

namespace ridge::models {

bool is_eagle_head(const gguf::File& file);
bool is_dflash_head(const gguf::File& file);

// What a DFlash head reads at once: the last known token, then `mask` for each guess.
struct DraftBlock {
  int64_t tokens = 0;
  int32_t mask = 0;
};
// Throws Error for unusable values.
DraftBlock block_of(const gguf::File& head);

} // namespace ridge::models
