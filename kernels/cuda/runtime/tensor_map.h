// Descriptions of matrices in device memory for the tensor copy engine (sm_90), which brings boxes of them into shared
// memory as wgmma reads them: rows of 64 halves whose 16-byte pieces are exchanged by piece ^= row % 8 (hopper.cuh).
#pragma once

#include <cuda.h>

#include <cstdint>

namespace ridge::kernels::cuda {

// f16 [matrices][rows][cols], `cols` being a multiple of 8, in boxes of `box_rows` x 64. Zeros are behind the last row
// and column. Throws Error where the driver refuses.
CUtensorMap tensor_map(const void* halves, int64_t matrices, int64_t rows, int64_t cols, int box_rows);

} // namespace ridge::kernels::cuda
