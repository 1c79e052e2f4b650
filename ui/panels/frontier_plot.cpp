#include "ui/panels/frontier_plot.h"

#include "core/units.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ridge::ui {
namespace {

using api::FrontierPoint;

constexpr double kMin = 1e-6; // nats; the axis's limit

double shown(const FrontierPoint& point) { return std::log10(std::max(point.divergence, kMin)); }

struct Frame {
  double least_bytes, most_bytes, low, high; // low, high: log10 nats
  ImVec2 from, to;

  ImVec2 at(double bytes, double power) const {
    const double x = (bytes - least_bytes) / std::max(1.0, most_bytes - least_bytes);
    return {from.x + static_cast<float>(x) * (to.x - from.x),
            from.y + static_cast<float>((power - low) / (high - low)) * (to.y - from.y)};
  }
  ImVec2 at(const FrontierPoint& point) const { return at(static_cast<double>(point.bytes), shown(point)); }
};

void draw_axes(const Frame& frame) {
  const Theme& t = theme();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  for (double power = std::ceil(frame.low); power <= frame.high; ++power) {
    const ImVec2 at = frame.at(frame.least_bytes, power);
    draw->AddLine({frame.from.x, at.y}, {frame.to.x, at.y}, t.raised, 1);
    text_at({frame.from.x - px(6), at.y - fonts().small->FontSize / 2}, fmt::format("{:g}", std::pow(10, power)), t.dim,
            fonts().small, 1);
  }
  constexpr int kMarks = 4;
  for (int i = 0; i <= kMarks; ++i) {
    const double bytes = frame.least_bytes + (frame.most_bytes - frame.least_bytes) * i / kMarks;
    const ImVec2 at = frame.at(bytes, frame.low);
    draw->AddLine({at.x, frame.from.y}, {at.x, frame.from.y + px(4)}, t.border, 1);
    text_at({at.x, frame.from.y + px(6)}, core::human_bytes(bytes), t.dim, fonts().small, 0.5f);
  }
  draw->AddLine(frame.from, {frame.from.x, frame.to.y}, t.border, 1);
  draw->AddLine(frame.from, {frame.to.x, frame.from.y}, t.border, 1);
  // The top right is empty, since large models diverge little.
  const auto note = [&](int line, const char* what, ImU32 color) {
    text_at({frame.to.x, frame.to.y + static_cast<float>(line) * px(16)}, what, color, fonts().small, 1);
  };
  note(0, "divergence from the original model, nats per token", t.dim);
  note(1, "recipes", t.amber);
  note(2, "mixes of types for this model", t.accent);
}

} // namespace

const FrontierPoint* draw_frontier(const std::vector<FrontierPoint>& points, float height) {
  const Theme& t = theme();
  const ImVec2 at = ImGui::GetCursorScreenPos(), size{ImGui::GetContentRegionAvail().x, height};
  const auto without = [](const FrontierPoint& point) { // its method
    FrontierPoint plain = point;
    if (point.plain > 0) plain.divergence = point.plain;
    return plain;
  };
  const FrontierPoint lowest = std::ranges::min(points, {}, shown);
  const FrontierPoint highest = std::ranges::max(points, {}, [&](const auto& point) { return shown(without(point)); });
  const Frame frame{static_cast<double>(points.front().bytes),
                    static_cast<double>(points.back().bytes),
                    shown(lowest) - 0.2,
                    shown(without(highest)) + 0.3,
                    {at.x + px(64), at.y + size.y - px(26)},
                    {at.x + size.x - px(56), at.y + px(6)}};
  draw_axes(frame);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  ImGui::InvisibleButton("frontier", size);
  const bool hovered = ImGui::IsItemHovered();
  const bool clicked = ImGui::IsItemClicked();
  const ImVec2 mouse = ImGui::GetMousePos();
  const FrontierPoint *nearest = nullptr, *mix_before = nullptr;
  float reach = px(14);
  for (const FrontierPoint& point : points) {
    const ImVec2 place = frame.at(point);
    if (point.recipe.empty()) {
      if (mix_before) draw->AddLine(frame.at(*mix_before), place, t.accent, px(1.2f));
      mix_before = &point;
    }
    const float distance = std::hypot(mouse.x - place.x, mouse.y - place.y);
    if (hovered && distance < reach) nearest = &point, reach = distance;
  }
  float label_end = -INFINITY;
  for (const FrontierPoint& point : points) {
    const ImVec2 place = frame.at(point);
    if (point.plain > 0) {
      const ImVec2 before = frame.at(without(point));
      draw->AddLine(before, place, t.dim, px(1.0f));
      draw->AddCircle(before, px(3.0f), t.dim);
    }
    draw->AddCircleFilled(place, px(&point == nearest ? 6.0f : 4.0f), point.recipe.empty() ? t.accent : t.amber);
    if (point.recipe.empty() || place.x < label_end) continue;
    text_at({place.x + px(7), place.y - px(16)}, point.recipe, t.dim, fonts().small);
    label_end = place.x + px(10) + size_of(point.recipe, fonts().small).x;
  }
  if (!nearest) return nullptr;
  show_tooltip(fmt::format(
      "{}\n{} · {:.2f} bits per weight\n{} nats per token{}{}\nclick to write it",
      nearest->recipe.empty() ? "mixed types" : nearest->recipe, core::human_bytes(static_cast<double>(nearest->bytes)),
      nearest->bits_per_weight, number_text(nearest->divergence), nearest->best ? ", best for its size" : "",
      nearest->plain > 0 ? fmt::format("\n{} without the method", number_text(nearest->plain)) : ""));
  return clicked ? nearest : nullptr;
}

} // namespace ridge::ui
