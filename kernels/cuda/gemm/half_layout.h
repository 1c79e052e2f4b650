// How activations as f16 lie in memory, for which product.
#pragma once

#include "core/host_device.h"

#include <cstdint>

namespace ridge::kernels::cuda {

enum class HalfLayout : uint8_t {
  rows,        // one after the other (gemm.h)
  interleaved, // rows of pieces in the order below (small_batch/)
  tiles,       // of an operand of `tiled_rows` rows (prompt_product.h)
};

// Interleaved, every four columns lie as first, third, second, fourth: so the codes of a packed word become halves
// without being brought into order. A piece is eight columns, 16 bytes. Of every four spans of 32 columns the first
// pieces come first, then the second ones, …: so lanes that have a span each read neighbouring pieces.
RIDGE_HD constexpr int64_t interleaved_place(int64_t piece) { return piece / 16 * 16 + piece % 4 * 4 + piece / 4 % 4; }

} // namespace ridge::kernels::cuda
