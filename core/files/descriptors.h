// The limit of open file descriptors.
#pragma once

#include <cstdint>

namespace ridge::core {

// Raises the soft limit to the hard one. Returns the resulting limit, int64_t's maximum if there is none.
int64_t raise_descriptor_limit();

} // namespace ridge::core
