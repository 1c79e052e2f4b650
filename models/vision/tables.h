// Resizing of position tables.
#pragma once

#include "models/vision/builder.h"

#include <span>
#include <vector>

namespace ridge::models::vision {

struct TableSize {
  int64_t columns, lines;
  bool operator==(const TableSize&) const = default;
};

// `table` has a row of `width` per position.
std::vector<float> resized_table(std::span<const float> table, int64_t width, TableSize from, TableSize to,
                                 TableResize resize);

} // namespace ridge::models::vision
