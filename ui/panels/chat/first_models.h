// Offers recommended models if there is no local one.
#pragma once

#include "ui/panels/panel.h"

#include <cstdint>
#include <string>

namespace ridge::ui {

class FirstModels {
 public:
  static bool has_any(const View& view);
  void draw(const View& view, float width);

 private:
  void draw_row(const View& view, const api::FirstModelRow& row, float width);

  std::string wanted_; // opened after its download; empty: none
};

} // namespace ridge::ui
