// Rows of weights of the mapped file, copied by all threads: also such as lie in runs (core::Weight::run_rows).
#pragma once

#include "core/program.h"

#include <cstdint>
#include <span>

namespace ridge::kernels::cuda {

// Rows [first, first + count) of all matrices of a weight, to be one behind the other from `to` on.
struct RowCopy {
  const core::Weight* weight;
  int64_t first, count;
  uint8_t* to;
};
void copy_rows(std::span<const RowCopy> copies);

// Asks the system to bring these rows into memory, and does not wait.
void expect_rows(const core::Weight& w, int64_t first, int64_t count);

} // namespace ridge::kernels::cuda
