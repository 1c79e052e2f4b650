// DFlash draft heads, which depend on the model that they are for.
#pragma once

#include "convert/import/config/config.h"

namespace ridge::convert::import {

// Sets which rows of the model a head reads, and its mask. Throws Error if config.json says neither.
void read_dflash_target(const Config& config, gguf::Metadata& metadata);

} // namespace ridge::convert::import
