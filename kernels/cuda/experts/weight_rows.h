// Copies rows from the mapped file by all threads, including runs (core::Weight::run_rows).
#pragma once

#include "core/program.h"

#include <cstdint>
#include <span>

namespace ridge::kernels::cuda {

// Rows of all of a weight's matrices, contiguous at `to`.
struct RowCopy {
  const core::Weight* weight;
  int64_t first, count;
  uint8_t* to;
};
void copy_rows(std::span<const RowCopy> copies);

// Does not wait.
void expect_rows(const core::Weight& w, int64_t first, int64_t count);

} // namespace ridge::kernels::cuda
