// Part of a tensor as pixels.
#pragma once

#include "api/snapshot.h"
#include "ui/widgets/theme.h"

namespace ridge::ui {

class HeatMap {
 public:
  // Returns true if it needs the part from first_row() and first_col().
  bool draw(const api::SliceStudy& slice, int64_t tensor_rows, int64_t tensor_cols, ImVec2 size);
  int64_t first_row() const { return first_row_; }
  int64_t first_col() const { return first_col_; }
  void reset() { first_row_ = first_col_ = 0; }

 private:
  void draw_legend(double full, ImVec2 at, float width) const;
  void hover(const api::SliceStudy& slice, int row, int col) const;

  int shown_ = 0; // 0 weights, 1 decoded, 2 error
  int64_t first_row_ = 0, first_col_ = 0;
};

} // namespace ridge::ui
