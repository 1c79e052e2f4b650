// Tables of learned positions in other sizes.
#pragma once

#include "models/vision/builder.h"

#include <span>
#include <vector>

namespace ridge::models::vision {

struct TableSize {
  int64_t columns, lines;
  bool operator==(const TableSize&) const = default;
};

// `table`: a row of `width` for each place of the grid `from`, line by line.
std::vector<float> resized_table(std::span<const float> table, int64_t width, TableSize from, TableSize to,
                                 TableResize resize);

} // namespace ridge::models::vision
