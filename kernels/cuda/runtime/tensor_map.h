// Descriptors for tensor copies, swizzled for wgmma (hopper.cuh).
#pragma once

#include <cuda.h>

#include <cstdint>

namespace ridge::kernels::cuda {

// f16 [matrices][rows][cols], `cols` a multiple of 8, boxes `box_rows` x 64, zeros outside. Throws Error.
CUtensorMap tensor_map(const void* halves, int64_t matrices, int64_t rows, int64_t cols, int box_rows);

} // namespace ridge::kernels::cuda
