// What of a weight belongs to a rank (shard.h): pieces of its rows or of its columns.
#pragma once

#include "core/program.h"

#include <compare>
#include <cstdint>
#include <vector>

namespace ridge::core {

// Elements of a row, or rows of a matrix, one behind the other.
struct Piece {
  int64_t first, count;
  auto operator<=>(const Piece&) const = default;
};
using Pieces = std::vector<Piece>;
int64_t count_of(const Pieces& pieces); // elements

// Those rows of each matrix. A view where one run of rows can say it, or with `in_runs` several, all as long and as far
// apart; else a copy, or without `copies` no data.
Weight cut_rows(const Weight& whole, const Pieces& pieces, bool in_runs, bool copies);
// Those columns of each row, whole blocks of `block` weights. A view where a row has one piece; else as above.
Weight cut_columns(const Weight& whole, const Pieces& pieces, int64_t block, bool copies);
// Those matrices.
Weight cut_matrices(const Weight& whole, const Piece& piece);

// The numbers of the elements, as permute takes them.
Weight order_of(const Pieces& pieces);

} // namespace ridge::core
