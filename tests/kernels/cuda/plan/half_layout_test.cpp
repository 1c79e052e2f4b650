// Where activations lie (products/half_layout.h).
#include "kernels/cuda/products/half_layout.h"

#include <doctest/doctest.h>

#include <set>

using namespace ridge::kernels::cuda;

TEST_CASE("half layout: codes, scales and sums of bytes each have their own place, and four scales of a lane adjoin") {
  constexpr int64_t kRows = 150, kColumns = 3 * kByteColumns; // padded to 256 rows
  std::set<int64_t> taken;
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t column = 0; column < kColumns; ++column) {
      const int64_t codes = byte_row_place(kRows, row, column), of_64 = byte_row_place(kRows, row / 64 * 64, column);
      const int in_64 = static_cast<int>(row % 64);
      const auto take = [&](int64_t first, int count) {
        for (int64_t byte = first; byte < first + count; ++byte) CHECK(taken.insert(byte).second);
      };
      take(codes + column % kByteColumns, 1);
      if (column % kByteColumns == 0) {
        take(of_64 + byte_scale_place(in_64), 4);
        if (in_64 % 32 >= 8) CHECK(byte_scale_place(in_64) == byte_scale_place(in_64 - 8) + 4);
      }
      if (column % 32 == 0) take(of_64 + byte_sum_place(in_64, static_cast<int>(column % kByteColumns / 32)), 2);
    }
  CHECK(*taken.rbegin() < kColumns / kByteColumns * 256 * kByteRowBytes);
}
