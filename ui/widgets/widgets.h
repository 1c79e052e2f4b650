// What several panels draw with.
#pragma once

#include "ui/widgets/theme.h"

#include <initializer_list>
#include <string>
#include <string_view>

namespace ridge::ui {

std::string count_text(double count);     // "1.24 B", "512"
std::string seconds_text(double seconds); // of a step: "12.3 µs", "4.56 ms"
std::string number_text(double number);   // three digits that matter: "0.0123", "1.23e-06"

void text(std::string_view text, ImU32 color, ImFont* font = nullptr);
void dim_text(std::string_view text);    // small and dim: labels, units
void field_label(std::string_view text); // above a field of a form
void title(std::string_view text);
// Text at a place, without taking part in the layout. align: 0 left, 0.5 centred, 1 right of `at`.
void text_at(ImVec2 at, std::string_view text, ImU32 color, ImFont* font, float align = 0);
ImVec2 size_of(std::string_view text, ImFont* font);

// An item, wrapped between words. width 0: what is left.
void wrapped_text(std::string_view text, ImU32 color, ImFont* font, float width = 0);
// A text that ends with "…" where there is no room.
std::string shortened(std::string_view text, float width, ImFont* font);

// The first of these that fits into `width`, else the last.
std::string fitting(std::initializer_list<std::string> longest_first, float width, ImFont* font);

// A rounded surface of a given size (0: what is left) to draw in; close with end_card(). `scrolls`: where the content
// may be higher.
void begin_card(const char* id, ImVec2 size, const char* heading = nullptr, bool scrolls = false);
void end_card();

// Buttons side by side, of which one is chosen. True where another one was.
bool segments(const char* id, std::initializer_list<const char*> labels, int& chosen);
bool quiet_button(const char* label); // small, without a frame until it is hovered
bool plain_button(const char* label, ImVec2 size = {0, 0});
bool accent_button(const char* label, ImVec2 size); // the one that matters
void bar(float share, ImVec2 size, ImU32 color);    // a meter, 0 to 1
void tooltip(std::string_view text);                // of the last item, where it is hovered
void show_tooltip(std::string_view text);           // at the mouse

} // namespace ridge::ui
