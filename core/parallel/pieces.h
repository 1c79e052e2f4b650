// A rank's pieces of a weight (shard.h).
#pragma once

#include "core/program.h"

#include <compare>
#include <cstdint>
#include <vector>

namespace ridge::core {

// Consecutive columns or rows.
struct Piece {
  int64_t first, count;
  auto operator<=>(const Piece&) const = default;
};
using Pieces = std::vector<Piece>;
int64_t count_of(const Pieces& pieces);

// Returns a view if the rows are one run, or with `in_runs` equal runs at equal distances; else a copy, or without
// `copies` no data.
Weight cut_rows(const Weight& whole, const Pieces& pieces, bool in_runs, bool copies);
// Cuts at multiples of `block` weights. Returns a view if there is one piece; else as above.
Weight cut_columns(const Weight& whole, const Pieces& pieces, int64_t block, bool copies);
Weight cut_matrices(const Weight& whole, const Piece& piece);

// Returns the indices for permute.
Weight order_of(const Pieces& pieces);

} // namespace ridge::core
