#include "core/parallel/pieces.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace ridge::core {
namespace {

using Runs = std::vector<std::span<const std::byte>>;

void copy_runs(Weight& w, const Runs& runs, bool copies) {
  w.run_rows = w.run_stride = 0;
  w.data = nullptr;
  if (!copies) return;
  auto bytes = std::make_shared<std::vector<std::byte>>();
  bytes->reserve(static_cast<size_t>(w.total_bytes()));
  for (const std::span<const std::byte> run : runs) bytes->insert(bytes->end(), run.begin(), run.end());
  w.data = bytes->data();
  w.owned = std::move(bytes);
}

// Returns the bytes between starts, 0 for unequal lengths or distances.
int64_t stride_of(const Runs& runs) {
  const int64_t stride = runs[1].data() - runs[0].data();
  for (size_t i = 1; i < runs.size(); ++i)
    if (runs[i].size() != runs[0].size() || runs[i].data() - runs[i - 1].data() != stride) return 0;
  return stride;
}

} // namespace

int64_t count_of(const Pieces& pieces) {
  int64_t count = 0;
  for (const Piece& piece : pieces) count += piece.count;
  return count;
}

Weight cut_rows(const Weight& whole, const Pieces& pieces, bool in_runs, bool copies) {
  Weight w = whole;
  w.rows = count_of(pieces);
  Runs runs;
  for (int64_t matrix = 0; matrix < whole.count; ++matrix)
    for (const Piece& piece : pieces)
      for (int64_t row = 0; row < piece.count;) {
        const int64_t at = matrix * whole.rows + piece.first + row, run = whole.rows_per_run();
        const int64_t rows = std::min(piece.count - row, run - at % run);
        runs.emplace_back(whole.row(at), static_cast<size_t>(rows * whole.row_bytes));
        row += rows;
      }
  w.data = runs[0].data();
  w.run_rows = w.run_stride = 0;
  if (runs.size() == 1) return w;
  if (const int64_t stride = in_runs ? stride_of(runs) : 0; stride != 0) {
    w.run_rows = std::ssize(runs[0]) / whole.row_bytes;
    w.run_stride = stride;
  } else {
    copy_runs(w, runs, copies);
  }
  return w;
}

Weight cut_columns(const Weight& whole, const Pieces& pieces, int64_t block, bool copies) {
  const int64_t block_bytes = whole.row_bytes / (whole.cols / block), rows = whole.rows * whole.count;
  Weight w = whole;
  w.cols = count_of(pieces);
  w.row_bytes = w.cols / block * block_bytes;
  if (pieces.size() == 1 && (rows == 1 || whole.run_rows <= 1)) {
    w.data = whole.data + pieces[0].first / block * block_bytes;
    if (rows > 1) w.run_rows = 1, w.run_stride = whole.run_rows == 1 ? whole.run_stride : whole.row_bytes;
    return w;
  }
  Runs runs;
  for (int64_t row = 0; row < rows; ++row)
    for (const Piece& piece : pieces)
      runs.emplace_back(whole.row(row) + piece.first / block * block_bytes,
                        static_cast<size_t>(piece.count / block * block_bytes));
  copy_runs(w, runs, copies);
  return w;
}

Weight cut_matrices(const Weight& whole, const Piece& piece) {
  Weight w = whole;
  w.count = piece.count;
  w.data = whole.row(piece.first * whole.rows);
  return w;
}

Weight order_of(const Pieces& pieces) {
  std::vector<int32_t> order;
  for (const Piece& piece : pieces)
    for (int64_t i = 0; i < piece.count; ++i) order.push_back(static_cast<int32_t>(piece.first + i));
  const std::span<const std::byte> bytes = std::as_bytes(std::span(order));
  Weight w{"columns of the rank", kOrderType, std::ssize(order), 1, 1, std::ssize(bytes), nullptr};
  copy_runs(w, {bytes}, true);
  return w;
}

} // namespace ridge::core
