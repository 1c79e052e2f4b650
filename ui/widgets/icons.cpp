#include "ui/widgets/icons.h"

#include <initializer_list>

namespace ridge::ui {
namespace {

constexpr float kGrid = 16; // the drawing grid

class Pen {
 public:
  Pen(ImVec2 at, float size, ImU32 color)
      : draw_(ImGui::GetWindowDrawList()), at_(at), unit_(size / kGrid), color_(color) {}

  void lines(std::initializer_list<ImVec2> points, bool closed = false) const {
    for (const ImVec2 point : points) draw_->PathLineTo(place(point));
    draw_->PathStroke(color_, closed ? ImDrawFlags_Closed : 0, thickness());
  }
  void box(ImVec2 from, ImVec2 to, float rounding = 1.5f) const {
    draw_->AddRect(place(from), place(to), color_, rounding * unit_, 0, thickness());
  }
  void fill(ImVec2 from, ImVec2 to) const { draw_->AddRectFilled(place(from), place(to), color_, unit_ / 2); }
  void circle(ImVec2 center, float radius) const {
    draw_->AddCircle(place(center), radius * unit_, color_, 24, thickness());
  }
  void dot(ImVec2 center, float radius) const { draw_->AddCircleFilled(place(center), radius * unit_, color_, 16); }
  void arc(ImVec2 center, float radius, float from, float to) const { // radians, clockwise from the right
    draw_->PathArcTo(place(center), radius * unit_, from, to, 24);
    draw_->PathStroke(color_, 0, thickness());
  }

 private:
  ImVec2 place(ImVec2 p) const { return {at_.x + p.x * unit_, at_.y + p.y * unit_}; }
  float thickness() const { return 1.4f * unit_; }

  ImDrawList* const draw_;
  const ImVec2 at_;
  const float unit_;
  const ImU32 color_;
};

} // namespace

void draw_icon(Icon icon, ImVec2 at, float size, ImU32 color) {
  const Pen pen(at, size, color);
  switch (icon) {
  case Icon::chat:
    pen.lines({{2, 3}, {14, 3}, {14, 11.5f}, {8, 11.5f}, {4.5f, 14.5f}, {4.5f, 11.5f}, {2, 11.5f}}, true);
    break;
  case Icon::gauges:
    pen.arc({8, 9.5f}, 6.5f, 2.7f, 6.72f);
    pen.lines({{8, 9.5f}, {11.2f, 5.6f}});
    pen.dot({8, 9.5f}, 1.3f);
    break;
  case Icon::roofline:
    pen.lines({{1.5f, 14}, {7.5f, 4}, {14.5f, 4}});
    pen.dot({6.2f, 10}, 1.2f);
    pen.dot({11, 7.5f}, 1.2f);
    break;
  case Icon::model:
    pen.lines({{8, 1.8f}, {14.5f, 5}, {8, 8.2f}, {1.5f, 5}}, true);
    pen.lines({{1.5f, 8}, {8, 11.2f}, {14.5f, 8}});
    pen.lines({{1.5f, 11}, {8, 14.2f}, {14.5f, 11}});
    break;
  case Icon::quant:
    pen.box({2, 2}, {14, 14});
    pen.fill({4, 4}, {7.3f, 7.3f});
    pen.fill({8.7f, 8.7f}, {12, 12});
    break;
  case Icon::jobs:
    for (const float y : {3.5f, 8.0f, 12.5f}) pen.lines({{6.5f, y}, {14, y}});
    pen.lines({{1.8f, 3.5f}, {3, 4.8f}, {5, 2.2f}});
    pen.lines({{1.8f, 8}, {3, 9.3f}, {5, 6.7f}});
    pen.dot({3.2f, 12.5f}, 1.1f);
    break;
  case Icon::server:
    pen.box({2, 2.5f}, {14, 7});
    pen.box({2, 9}, {14, 13.5f});
    pen.dot({4.7f, 4.75f}, 0.9f);
    pen.dot({4.7f, 11.25f}, 0.9f);
    break;
  case Icon::sequences:
    pen.fill({2, 3}, {10, 5});
    pen.fill({5, 7}, {14, 9});
    pen.fill({2, 11}, {7, 13});
    break;
  case Icon::open:
    pen.lines({{1.8f, 13}, {1.8f, 3.5f}, {6, 3.5f}, {7.5f, 5.5f}, {14.2f, 5.5f}, {14.2f, 13}}, true);
    break;
  case Icon::light:
    pen.circle({8, 8}, 3);
    pen.lines({{8, 1.5f}, {8, 3}});
    pen.lines({{8, 13}, {8, 14.5f}});
    pen.lines({{1.5f, 8}, {3, 8}});
    pen.lines({{13, 8}, {14.5f, 8}});
    pen.lines({{3.4f, 3.4f}, {4.5f, 4.5f}});
    pen.lines({{11.5f, 11.5f}, {12.6f, 12.6f}});
    pen.lines({{3.4f, 12.6f}, {4.5f, 11.5f}});
    pen.lines({{11.5f, 4.5f}, {12.6f, 3.4f}});
    break;
  case Icon::dark:
    pen.arc({8, 8}, 6, 0.55f, 5.2f);
    pen.arc({11.6f, 5.6f}, 5.6f, 1.35f, 3.65f);
    break;
  case Icon::keys:
    pen.box({1.5f, 4}, {14.5f, 12.5f});
    for (const float x : {4.2f, 6.7f, 9.2f, 11.7f}) pen.dot({x, 6.8f}, 0.8f);
    pen.lines({{5, 10}, {11, 10}});
    break;
  }
}

} // namespace ridge::ui
