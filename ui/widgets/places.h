// Records positions of widgets by name, for tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

struct ImVec2;

namespace ridge::ui {

// Call before the first frame.
void enable_widget_positions(bool keep);
// Names ImGui's last item, or a rectangle.
void record_widget_position(std::string_view name);
void record_widget_position(std::string_view name, ImVec2 from, ImVec2 to);
void finish_places();

// Centres of all items of this name in the last frame, in drawing order. Any thread may call.
struct Place {
  float x, y;
};
std::vector<Place> places_of(const std::string& name);

} // namespace ridge::ui
