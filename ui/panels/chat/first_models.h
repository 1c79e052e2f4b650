// Models to begin with, offered in an empty conversation where there is none on the machine: one click gets one and
// opens it.
#pragma once

#include "ui/panels/panel.h"

#include <cstdint>
#include <string>

namespace ridge::ui {

class FirstModels {
 public:
  // Whether there is anything to be offered.
  static bool has_any(const View& view);
  void draw(const View& view, float width);

 private:
  void draw_row(const View& view, const core::FirstModelRow& row, float width);

  std::string wanted_; // the one that is opened when it is here; empty: none
};

} // namespace ridge::ui
