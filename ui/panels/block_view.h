// Shows a block's bits and weights.
#pragma once

#include "api/snapshot.h"
#include "ui/widgets/theme.h"

namespace ridge::ui {

// Blue below zero, red above; full at -1 and 1.
ImU32 weight_color(float value);

class BlockView {
 public:
  void draw(const api::BlockStudy& block, ImVec2 size);
  int weight() const { return weight_; }

 private:
  int draw_bits(const api::BlockStudy& block, ImVec2 at, ImVec2 size); // returns the weight under the mouse or -1
  int draw_weights(const api::BlockStudy& block, ImVec2 at, ImVec2 size);

  int weight_ = 0;
};

} // namespace ridge::ui
