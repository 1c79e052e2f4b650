// How many files and connections a process may have open.
#pragma once

#include <cstdint>

namespace ridge::core {

// Raises this process's own (soft) limit to the hard one, which needs no rights. Returns the limit that holds then:
// the one before where the system refuses, the largest int64_t where there is none.
int64_t raise_descriptor_limit();

} // namespace ridge::core
