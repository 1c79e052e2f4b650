#include "ui/widgets/places.h"

#include <imgui.h>

#include <map>
#include <mutex>

namespace ridge::ui {
namespace {

bool places_are_kept = false;
std::map<std::string, std::vector<Place>, std::less<>> drawn_places;
std::mutex places_mutex; // guards what follows
std::map<std::string, std::vector<Place>, std::less<>> last_places;

} // namespace

void enable_widget_positions(bool keep) { places_are_kept = keep; }

void record_widget_position(std::string_view name) {
  record_widget_position(name, ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
}

void record_widget_position(std::string_view name, ImVec2 from, ImVec2 to) {
  if (!places_are_kept) return;
  const ImVec2 low = ImGui::GetWindowDrawList()->GetClipRectMin(), high = ImGui::GetWindowDrawList()->GetClipRectMax();
  const Place center = {(from.x + to.x) / 2, (from.y + to.y) / 2};
  if (center.x < low.x || center.x > high.x || center.y < low.y || center.y > high.y) return;
  drawn_places[std::string(name.substr(0, name.find("##")))].push_back(center);
}

void finish_places() {
  if (!places_are_kept) return;
  const std::lock_guard lock(places_mutex);
  last_places = std::move(drawn_places);
  drawn_places.clear();
}

std::vector<Place> places_of(const std::string& name) {
  const std::lock_guard lock(places_mutex);
  const auto found = last_places.find(name);
  return found == last_places.end() ? std::vector<Place>() : found->second;
}

} // namespace ridge::ui
