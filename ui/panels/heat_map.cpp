#include "ui/panels/heat_map.h"

#include "ui/panels/block_view.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ridge::ui {

namespace {

constexpr double kFullRms = 3;        // full colour, in RMS
constexpr double kFullErrorRms = 0.3; // for errors

} // namespace

void HeatMap::draw_legend(double full, ImVec2 at, float width) const {
  const Theme& t = theme();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  constexpr int kSteps = 48;
  const float step = width / kSteps, height = px(8);
  for (int i = 0; i < kSteps; ++i)
    draw->AddRectFilled({at.x + step * static_cast<float>(i), at.y},
                        {at.x + step * static_cast<float>(i + 1), at.y + height},
                        weight_color((static_cast<float>(i) + 0.5f) / kSteps * 2 - 1));
  draw->AddRect(at, {at.x + width, at.y + height}, t.border);
  const float y = at.y + height + px(2);
  text_at({at.x, y}, fmt::format("≤ {}", number_text(-full)), t.dim, fonts().small);
  text_at({at.x + width / 2, y}, "0", t.dim, fonts().small, 0.5f);
  text_at({at.x + width, y}, fmt::format("≥ {}", number_text(full)), t.dim, fonts().small, 1);
}

void HeatMap::hover(const api::SliceStudy& slice, int row, int col) const {
  const size_t i = static_cast<size_t>(row) * slice.cols + col;
  std::string words = fmt::format("row {}, column {}\nstored {}", slice.first_row + row, slice.first_col + col,
                                  number_text(slice.original[i]));
  if (!slice.bits.empty()) words += fmt::format("\nbits {}", slice.bits[i]);
  if (!slice.format.empty())
    words += fmt::format("\n{} stores {}\nerror {}", slice.format, number_text(slice.decoded[i]),
                         number_text(static_cast<double>(slice.decoded[i]) - slice.original[i]));
  show_tooltip(words);
}

bool HeatMap::draw(const api::SliceStudy& slice, int64_t tensor_rows, int64_t tensor_cols, ImVec2 size) {
  const ImVec2 begin = ImGui::GetCursorScreenPos();
  const bool compared = !slice.format.empty();
  if (!compared) shown_ = 0;
  if (compared)
    segments("shown", {"stored", "packed", "error"}, shown_);
  else
    dim_text("stored weights");
  const double full = slice.rms * (shown_ == 2 ? kFullErrorRms : kFullRms);

  bool moved = false;
  const bool wide = tensor_cols > slice.cols, tall = tensor_rows > slice.rows;
  if (wide || tall) {
    const float field = std::clamp((size.x - px(190)) / 2, px(30), px(110));
    const bool narrow = field < px(80);
    ImGui::SameLine(ImGui::GetWindowContentRegionMin().x + size.x - (tall && wide ? 2 * field + px(4) : field));
    ImGui::PushFont(fonts().small);
    ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(px(6), px(3)));
    const auto drag = [&](const char* id, const char* format, int64_t& value, int64_t last) {
      auto number = static_cast<int>(value);
      ImGui::SetNextItemWidth(field);
      if (ImGui::DragInt(id, &number, 1, 0, static_cast<int>(last), format)) {
        value = std::clamp<int64_t>(number, 0, last);
        moved = true;
      }
      tooltip(fmt::format("start of the section: drag, or Ctrl-click to type 0 to {}", last));
    };
    if (tall) drag("##row", narrow ? "r %d" : "row %d", first_row_, tensor_rows - slice.rows);
    if (tall && wide) ImGui::SameLine(0, px(4));
    if (wide) drag("##column", narrow ? "c %d" : "col %d", first_col_, tensor_cols - slice.cols);
    ImGui::PopStyleVar();
    ImGui::PopFont();
  }

  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float legend = px(34), room = size.y - (at.y - begin.y) - legend;
  const float cell_x = size.x / static_cast<float>(slice.cols);
  const float cell_y = std::min(room / static_cast<float>(slice.rows), px(18));
  ImDrawList* draw = ImGui::GetWindowDrawList();
  for (int r = 0; r < slice.rows; ++r)
    for (int c = 0; c < slice.cols; ++c) {
      const size_t i = static_cast<size_t>(r) * slice.cols + c;
      const double value = shown_ == 0   ? slice.original[i]
                           : shown_ == 1 ? slice.decoded[i]
                                         : static_cast<double>(slice.decoded[i]) - slice.original[i];
      const float x = at.x + cell_x * static_cast<float>(c), y = at.y + cell_y * static_cast<float>(r);
      draw->AddRectFilled({x, y}, {x + cell_x, y + cell_y},
                          weight_color(full > 0 ? static_cast<float>(value / full) : 0));
    }
  const float height = cell_y * static_cast<float>(slice.rows);
  ImGui::Dummy({size.x, height});
  if (ImGui::IsItemHovered()) {
    const ImVec2 mouse = ImGui::GetMousePos();
    const int col = std::clamp(static_cast<int>((mouse.x - at.x) / cell_x), 0, slice.cols - 1);
    const int row = std::clamp(static_cast<int>((mouse.y - at.y) / cell_y), 0, slice.rows - 1);
    const ImVec2 cell{at.x + cell_x * static_cast<float>(col), at.y + cell_y * static_cast<float>(row)};
    draw->AddRect({cell.x - 1, cell.y - 1}, {cell.x + cell_x + 1, cell.y + cell_y + 1}, theme().amber, 0, 0, px(2));
    hover(slice, row, col);
  }
  draw_legend(full, {at.x, begin.y + size.y - legend + px(8)}, size.x);
  return moved;
}

} // namespace ridge::ui
