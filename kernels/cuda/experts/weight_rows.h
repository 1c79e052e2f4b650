// Rows of a weight of the mapped file, copied by all threads: also such as lie in runs (core::Weight::run_rows).
#pragma once

#include "core/program.h"

#include <cstdint>

namespace ridge::kernels::cuda {

// Rows [first, first + count) of all matrices, to be one behind the other from `to` on.
void copy_rows(uint8_t* to, const core::Weight& w, int64_t first, int64_t count);

// Asks the system to bring these rows into memory, and does not wait.
void expect_rows(const core::Weight& w, int64_t first, int64_t count);

} // namespace ridge::kernels::cuda
