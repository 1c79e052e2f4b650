// Where what can be clicked was drawn, by its words: so tests click where a user would see them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

struct ImVec2;

namespace ridge::ui {

// Whether the window that draws keeps them; called before its first frame.
void keep_places(bool keep);
// The last item of ImGui is known by this name, or `from` to `to` is.
void note_place(std::string_view name);
void note_place(std::string_view name, ImVec2 from, ImVec2 to);
void finish_places(); // of a frame

// The centres, from any thread, of all that had this name in the last frame, in the order in which they were drawn.
struct Place {
  float x, y;
};
std::vector<Place> places_of(const std::string& name);

} // namespace ridge::ui
