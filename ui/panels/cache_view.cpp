#include "ui/panels/cache_view.h"

#include "core/kv_divergence.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ridge::ui {
namespace {

using core::KvDivergence;

std::string name_of(const KvDivergence& row) {
  const std::string_view keys = core::format_of(row.keys).name, values = core::format_of(row.values).name;
  return keys == values ? std::string(keys) : fmt::format("{} keys, {} values", keys, values);
}

std::string describe(const KvDivergence& row) {
  return fmt::format("{} in {}, contexts of {} tokens:\n{} nats per token from f32 caches\nanother likeliest token at "
                     "{:.2g} of 100 positions",
                     name_of(row), row.model, row.tokens, number_text(row.nats), 100 * (1 - row.same_top));
}

std::vector<std::string_view> measured_models() {
  std::vector<std::string_view> models;
  for (const KvDivergence& row : core::kKvDivergences)
    if (std::ranges::find(models, row.model) == models.end()) models.push_back(row.model);
  return models;
}

struct CurveArea {
  ImVec2 from, to; // lower left, upper right
  double shortest, longest, low, high;

  ImVec2 at(double tokens, double nats) const {
    const double x = std::log2(tokens / shortest) / std::log2(longest / shortest);
    const double y = (std::log10(nats) - low) / (high - low);
    return {from.x + static_cast<float>(x) * (to.x - from.x), from.y + static_cast<float>(y) * (to.y - from.y)};
  }
};

CurveArea curve_area(ImVec2 at, ImVec2 size) {
  CurveArea area{{at.x + px(44), at.y + size.y - px(36)}, {at.x + size.x - px(150), at.y + px(10)}, 1e9, 0, 0, -9};
  for (const KvDivergence& row : core::kKvDivergences) {
    area.shortest = std::min(area.shortest, static_cast<double>(row.tokens));
    area.longest = std::max(area.longest, static_cast<double>(row.tokens));
    area.low = std::min(area.low, std::floor(std::log10(row.nats)));
    area.high = std::max(area.high, std::ceil(std::log10(row.nats)));
  }
  return area;
}

void draw_grid(const CurveArea& area) {
  const Theme& t = theme();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  for (double power = area.low; power <= area.high; ++power) {
    const ImVec2 at = area.at(area.shortest, std::pow(10, power));
    draw->AddLine(at, {area.to.x, at.y}, t.border);
    text_at({at.x - px(6), at.y - px(8)}, fmt::format("{:g}", std::pow(10, power)), t.dim, fonts().small, 1);
  }
  for (double tokens = area.shortest; tokens <= area.longest; tokens *= 4)
    text_at({area.at(tokens, 1).x, area.from.y + px(4)}, fmt::format("{:.0f}", tokens), t.dim, fonts().small, 0.5f);
  text_at({area.to.x, area.from.y + px(19)}, "tokens of context", t.dim, fonts().small, 1);
}

void draw_curves(std::string_view model, const View& view) {
  const Theme& t = theme();
  text(model, t.text, fonts().bold);
  ImGui::SameLine(0, px(10));
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() + px(3));
  dim_text("nats per token from f32 caches");
  const ImVec2 at = ImGui::GetCursorScreenPos(), size = ImGui::GetContentRegionAvail(), mouse = ImGui::GetMousePos();
  const CurveArea area = curve_area(at, size);
  draw_grid(area);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  struct End {
    ImVec2 at;
    std::string name;
    ImU32 color;
  };
  std::vector<End> ends;
  const KvDivergence* nearest = nullptr;
  float reach = px(12);
  const std::vector<KvDivergence> pairs = core::measured_types();
  for (size_t i = 0; i < pairs.size(); ++i) {
    const ImU32 color = t.series[i % std::size(t.series)];
    const bool is_open = core::format_of(pairs[i].keys).name == view.now.options.k_type &&
                         core::format_of(pairs[i].values).name == view.now.options.v_type;
    const ImVec2* before = nullptr;
    ImVec2 place;
    for (const KvDivergence& row : core::kKvDivergences) {
      if (row.model != model || !core::have_same_types(row, pairs[i])) continue;
      const ImVec2 next = area.at(static_cast<double>(row.tokens), row.nats);
      if (before) draw->AddLine(place, next, color, px(is_open ? 3.0f : 1.5f));
      draw->AddCircleFilled(next, px(is_open ? 4.0f : 3.0f), color);
      if (const float away = std::hypot(next.x - mouse.x, next.y - mouse.y); away < reach) reach = away, nearest = &row;
      place = next, before = &place;
    }
    if (before) ends.push_back({place, name_of(pairs[i]), color});
  }
  std::ranges::sort(ends, {}, [](const End& end) { return end.at.y; });
  float lowest = -INFINITY;
  for (const End& end : ends) {
    lowest = std::max(lowest + px(14), end.at.y - px(8));
    text_at({end.at.x + px(8), lowest}, end.name, mix(t.text, end.color, 0.6f), fonts().small);
  }
  ImGui::Dummy(size);
  if (nearest && ImGui::IsItemHovered()) show_tooltip(describe(*nearest));
}

void draw_cache_table(const View& view) {
  const int64_t context = view.now.kv.context;
  dim_text(fmt::format("The higher of the models' values, at the longest measured length in this context ({} tokens)",
                       context));
  ImGui::PushFont(fonts().small);
  ImGui::PushStyleVar(ImGuiStyleVar_CellPadding, ImVec2(px(4), px(3)));
  if (ImGui::BeginTable("caches", 5,
                        ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerH |
                            ImGuiTableFlags_SizingStretchSame)) {
    ImGui::TableSetupScrollFreeze(0, 1);
    for (const char* name : {"Keys", "Values", "Bits per element", "Nats per token", "Another likeliest token"})
      ImGui::TableSetupColumn(name);
    ImGui::TableHeadersRow();
    for (const KvDivergence& row : core::highest_divergences(context)) {
      const std::string_view keys = core::format_of(row.keys).name, values = core::format_of(row.values).name;
      const bool is_open = keys == view.now.options.k_type && values == view.now.options.v_type;
      const auto cell = [&](std::string_view value) {
        ImGui::TableNextColumn();
        text(value, is_open ? theme().accent : theme().text);
      };
      ImGui::TableNextRow();
      cell(keys);
      cell(values);
      cell(fmt::format("{:g}", 4 * (core::bytes_per_element(row.keys) + core::bytes_per_element(row.values))));
      cell(number_text(row.nats));
      cell(fmt::format("{:.2g} %", 100 * (1 - row.same_top)));
      tooltip(describe(row));
    }
    ImGui::EndTable();
  }
  ImGui::PopStyleVar();
  ImGui::PopFont();
}

} // namespace

void draw_caches(const View& view, ImVec2 size) {
  const float gap = px(12), upper = size.y * 0.58f;
  const std::vector<std::string_view> models = measured_models();
  const auto count = static_cast<float>(models.size());
  for (size_t i = 0; i < models.size(); ++i) {
    if (i > 0) ImGui::SameLine(0, gap);
    begin_card(std::string(models[i]).c_str(), {(size.x - gap * (count - 1)) / count, upper});
    draw_curves(models[i], view);
    end_card();
  }
  begin_card("costs", {size.x, size.y - upper - gap});
  draw_cache_table(view);
  end_card();
}

} // namespace ridge::ui
