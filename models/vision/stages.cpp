// Selects the rows of each stage.
#include "core/error.h"
#include "models/vision/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace ridge::models::vision {

using core::OpKind;
using core::ValueId;
using core::WeightId;

void Builder::cut_squares() {
  if (width_px_ % height_px_ != 0)
    throw_error("{}: a tile of {} × {} pixels cannot be divided into squares", file_.path(), width_px_, height_px_);
  encoder_.squares = width_px_ / height_px_;
  width_px_ = height_px_;
}

void Builder::in_squares(int64_t side, bool whole) {
  Stage& s = stage();
  s.from.clear();
  for (int64_t top = 0; top < lines_; top += side)
    for (int64_t left = 0; left < columns_; left += side) {
      for (int64_t y = top; y < top + side; ++y)
        for (int64_t x = left; x < left + side; ++x) {
          const bool inside = y < lines_ && x < columns_;
          if (inside || whole) s.from.push_back(inside ? static_cast<int32_t>(y * columns_ + x) : -1);
        }
      s.block_ends.resize(s.from.size(), static_cast<int32_t>(s.from.size()));
    }
}

std::vector<int32_t> Builder::rows_by_line() {
  std::vector<int32_t> rows(grid_.columns * grid_.lines);
  std::iota(rows.begin(), rows.end(), 0);
  if (encoder_.stages.size() > 1) return rows;
  for (size_t row = 0; row < from().size(); ++row)
    if (from()[row] >= 0) rows[from()[row]] = static_cast<int32_t>(row);
  return rows;
}

// Row indices of squares at every `step` lines and columns from `first`; -1: outside the grid.
std::vector<int32_t> Builder::squares(int64_t side, int64_t step, int64_t first) {
  const std::vector<int32_t> row_of = rows_by_line();
  std::vector<int32_t> rows;
  for (int64_t top = first; top < grid_.lines + first; top += step)
    for (int64_t left = first; left < grid_.columns + first; left += step)
      for (int64_t i = 0; i < side * side; ++i) {
        const int64_t line = top + i / side, column = left + i % side;
        const bool inside = line >= 0 && column >= 0 && line < grid_.lines && column < grid_.columns;
        rows.push_back(inside ? row_of[line * grid_.columns + column] : -1);
      }
  grid_ = {(grid_.columns + step - 1) / step, (grid_.lines + step - 1) / step};
  encoder_.columns = grid_.columns;
  encoder_.lines = grid_.lines;
  return rows;
}

ValueId Builder::merge_padded(ValueId value, int64_t side) {
  return begin_stage(value, side * side, squares(side, side, 0));
}

ValueId Builder::around(ValueId value, int64_t step, int64_t more) {
  constexpr int64_t kSide = 3;
  std::vector<int32_t> from = squares(kSide, step, -1);
  from.resize(from.size() + kSide * kSide * more, -1);
  return begin_stage(value, kSide * kSide, std::move(from));
}

std::vector<ValueId> Builder::merge(const std::vector<ValueId>& values, int64_t side) {
  if (grid_.columns % side != 0 || grid_.lines % side != 0)
    throw_error("{}: {} × {} patches cannot be divided into squares of {}", file_.path(), grid_.columns, grid_.lines,
                side);
  return begin_stage(values, side * side, squares(side, side, 0));
}

ValueId Builder::begin_stage(ValueId value, int64_t group, std::vector<int32_t> from) {
  return begin_stage(std::vector{value}, group, std::move(from))[0];
}

std::vector<ValueId> Builder::begin_stage(const std::vector<ValueId>& values, int64_t group,
                                          std::vector<int32_t> from) {
  ValueId all = values[0];
  std::vector<int64_t> widths = {width_of(all)};
  for (size_t i = 1; i < values.size(); ++i) {
    widths.push_back(width_of(values[i]));
    all = concat(all, values[i], fmt::format("v.all.{}", i));
  }
  const int64_t width = width_of(all);
  program().output = all;
  const ValueId input = begin("rows side by side", group * width);
  stage().group = group;
  stage().from = std::move(from);
  if (values.size() == 1) return {input};
  std::vector<ValueId> parts;
  int64_t first = 0;
  for (const int64_t own : widths) {
    std::vector<int32_t> order;
    for (int64_t i = 0; i < group; ++i)
      for (int64_t c = 0; c < own; ++c) order.push_back(static_cast<int32_t>(i * width + first + c));
    parts.push_back(permute(input, fmt::format("mm.part.{}", parts.size()), order, group * width));
    first += own;
  }
  return parts;
}

ValueId Builder::channels_first(ValueId x, const std::string& name, int64_t patches) {
  if (patches == 1) return x;
  const int64_t width = width_of(x) / patches;
  std::vector<int32_t> order;
  for (int64_t c = 0; c < width; ++c)
    for (int64_t i = 0; i < patches; ++i) order.push_back(static_cast<int32_t>(i * width + c));
  return permute(x, name, order, width_of(x));
}

ValueId Builder::convolution(ValueId x, const std::string& name, int64_t patches) {
  const gguf::Tensor& kernel = tensor(name + ".weight");
  const int64_t cols = width_of(x), rows = kernel.weights() / cols;
  x = channels_first(x, name + ".order", patches);
  std::vector<WeightId> weights = {add_weight(view(name + ".weight", cols, rows))};
  if (has(name + ".bias")) weights.push_back(vector(name + ".bias", rows));
  return emit(OpKind::linear, name, {x}, rows, std::move(weights));
}

void Builder::tokens(ValueId x) {
  program().output = x;
  encoder_.tokens.resize(stage().rows());
  std::iota(encoder_.tokens.begin(), encoder_.tokens.end(), 0);
}

void Builder::between_ends() {
  const int64_t width = encoder_.width();
  for (const char* name : {"v.boi", "v.eoi"}) {
    const std::vector<float> row = values(name, width);
    encoder_.further.insert(encoder_.further.end(), row.begin(), row.end());
  }
  encoder_.tokens.insert(encoder_.tokens.begin(), -1);
  encoder_.tokens.push_back(-2);
}

} // namespace ridge::models::vision
