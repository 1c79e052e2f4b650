#include "ui/panels/block_view.h"

#include "ui/widgets/widgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ridge::ui {

ImU32 weight_color(float value) {
  const Theme& t = theme();
  return mix(t.surface, value < 0 ? t.accent : t.red, std::min(1.0f, std::abs(value)));
}

// Highest bit first; bytes left to right, then down.
int BlockView::draw_bits(const api::BlockStudy& block, ImVec2 at, ImVec2 size) {
  const Theme& t = theme();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const auto bytes = static_cast<int>(block.bytes.size());
  int columns = 8;
  while (columns < 32 && static_cast<float>((bytes + columns - 1) / columns) * px(11) > size.y) columns += 4;
  const int lines = (bytes + columns - 1) / columns;
  const float gap = px(3), cell_x = (size.x - gap * static_cast<float>(columns)) / static_cast<float>(8 * columns);
  const float cell_y = std::min(size.y / static_cast<float>(lines), px(18));
  std::vector<int> owner(block.bytes.size() * 8, -1);
  for (size_t i = 0; i < block.weights.size(); ++i)
    for (const int bit : block.weights[i].bits) owner[static_cast<size_t>(bit)] = static_cast<int>(i);
  const ImVec2 mouse = ImGui::GetMousePos();
  int found = -1;
  for (size_t f = 0; f < block.fields.size(); ++f) {
    const auto& field = block.fields[f];
    for (int byte = field.first_byte; byte < field.first_byte + field.bytes; ++byte)
      for (int place = 0; place < 8; ++place) {
        const float x =
            at.x + static_cast<float>(byte % columns) * (8 * cell_x + gap) + static_cast<float>(7 - place) * cell_x;
        const float y = at.y + static_cast<float>(byte / columns) * cell_y;
        const bool set = block.bytes[static_cast<size_t>(byte)] >> place & 1;
        const int of = owner[static_cast<size_t>(8 * byte + place)];
        const bool marked = of >= 0 && of == weight_;
        const ImVec2 from{x, y}, to{x + cell_x - 1, y + cell_y - 1};
        draw->AddRectFilled(from, to,
                            marked ? (set ? t.amber : mix(t.amber, t.surface, 0.6f))
                            : set  ? t.series[f % 8]
                                   : mix(t.surface, t.series[f % 8], 0.28f));
        if (mouse.x >= x && mouse.x < x + cell_x && mouse.y >= y && mouse.y < y + cell_y && ImGui::IsWindowHovered()) {
          if (of >= 0) found = of;
          show_tooltip(fmt::format("byte {}, bit {}: {:d}\n{}: {}{}", byte, place, set, field.name, field.meaning,
                                   of >= 0 ? fmt::format("\nof weight {}", of) : ""));
        }
      }
  }
  return found;
}

int BlockView::draw_weights(const api::BlockStudy& block, ImVec2 at, ImVec2 size) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  constexpr int kColumns = 32;
  const auto count = static_cast<int>(block.weights.size());
  const int lines = (count + kColumns - 1) / kColumns;
  const float cell_x = size.x / kColumns, cell_y = std::min(size.y / static_cast<float>(lines), px(20));
  float most = 1e-30f;
  for (const auto& weight : block.weights) most = std::max(most, std::abs(weight.decoded));
  const ImVec2 mouse = ImGui::GetMousePos();
  int found = -1;
  for (int i = 0; i < count; ++i) {
    const float x = at.x + static_cast<float>(i % kColumns) * cell_x,
                y = at.y + static_cast<float>(i / kColumns) * cell_y;
    const ImVec2 to{x + cell_x - 1, y + cell_y - 1};
    draw->AddRectFilled({x, y}, to, weight_color(block.weights[static_cast<size_t>(i)].decoded / most));
    if (i == weight_) draw->AddRect({x - 1, y - 1}, {to.x + 1, to.y + 1}, theme().amber, 0, 0, px(2));
    if (mouse.x >= x && mouse.x < x + cell_x && mouse.y >= y && mouse.y < y + cell_y && ImGui::IsWindowHovered())
      found = i;
  }
  return found;
}

void BlockView::draw(const api::BlockStudy& block, ImVec2 size) {
  const Theme& t = theme();
  ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 begin = at;
  weight_ = std::clamp(weight_, 0, static_cast<int>(block.weights.size()) - 1);
  float x = at.x;
  for (size_t f = 0; f < block.fields.size(); ++f) {
    const auto& field = block.fields[f];
    const std::string label = fmt::format("{}: {}", field.name, field.meaning);
    const float width = size_of(label, fonts().small).x;
    if (x > at.x && x + px(16) + width > begin.x + size.x) {
      x = at.x;
      at.y += px(18);
    }
    ImGui::GetWindowDrawList()->AddRectFilled({x, at.y + px(2)}, {x + px(11), at.y + px(13)}, t.series[f % 8], px(3));
    text_at({x + px(16), at.y}, label, t.dim, fonts().small);
    x += width + px(32);
  }
  at.y += px(24);
  const float key = at.y - begin.y;
  const float detail = px(42), labels = px(22);
  const float grids = size.y - key - detail - labels;
  const float bits_height = grids * 0.62f, weights_height = grids - bits_height;
  const int by_bit = draw_bits(block, at, {size.x, bits_height});
  at.y += bits_height + px(4);
  text_at(at, "Decoded weights: blue is negative, red positive", t.dim, fonts().small);
  at.y += labels - px(4);
  const int by_weight = draw_weights(block, at, {size.x, weights_height});
  if (by_bit >= 0 || by_weight >= 0) weight_ = std::max(by_bit, by_weight);

  const auto& weight = block.weights[static_cast<size_t>(weight_)];
  std::string bits;
  for (auto bit = weight.bits.rbegin(); bit != weight.bits.rend(); ++bit)
    bits += block.bytes[static_cast<size_t>(*bit / 8)] >> *bit % 8 & 1 ? '1' : '0';
  at.y = begin.y + size.y - detail + px(6);
  text_at(
      at,
      fmt::format("weight {:>3}   bits {} = {:<3}  →  {:<10}", weight_, bits, weight.code, number_text(weight.decoded)),
      t.text, fonts().mono);
  text_at({at.x, at.y + px(19)},
          block.stored ? "point at a bit or a weight to highlight related ones"
                       : fmt::format("stored {}   error {}", number_text(weight.original),
                                     number_text(static_cast<double>(weight.decoded) - weight.original)),
          t.dim, fonts().mono);
  ImGui::Dummy(size);
}

} // namespace ridge::ui
