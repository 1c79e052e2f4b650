// Widgets of several panels.
#pragma once

#include "ui/widgets/theme.h"

#include <initializer_list>
#include <string>
#include <string_view>

namespace ridge::ui {

std::string count_text(double count);     // "1.24 B", "512"
std::string seconds_text(double seconds); // "12.3 µs", "4.56 ms"
std::string number_text(double number);   // "0.0123", "1.23e-06"

void text(std::string_view text, ImU32 color, ImFont* font = nullptr);
void dim_text(std::string_view text);
void field_label(std::string_view text);
void title(std::string_view text);
// Draws outside the layout. align: 0 left, 0.5 centred, 1 right.
void text_at(ImVec2 at, std::string_view text, ImU32 color, ImFont* font, float align = 0);
ImVec2 size_of(std::string_view text, ImFont* font);

// width 0: the rest.
void wrapped_text(std::string_view text, ImU32 color, ImFont* font, float width = 0);
// Ends with "…" if the text is too long.
std::string shortened(std::string_view text, float width, ImFont* font);

// The first that fits, else the last.
std::string fitting(std::initializer_list<std::string> longest_first, float width, ImFont* font);

// Size 0: the rest. Call end_card() after it. `scrolls`: the content may be higher.
void begin_card(const char* id, ImVec2 size, const char* heading = nullptr, bool scrolls = false);
void end_card();

// Buttons of which one is chosen. Returns true if the choice changed.
bool segments(const char* id, std::initializer_list<const char*> labels, int& chosen);
bool quiet_button(const char* label); // framed when hovered
bool plain_button(const char* label, ImVec2 size = {0, 0});
bool accent_button(const char* label, ImVec2 size); // primary
void bar(float share, ImVec2 size, ImU32 color);    // share: 0 to 1
void tooltip(std::string_view text);                // when the last item is hovered
void show_tooltip(std::string_view text);           // at the mouse

} // namespace ridge::ui
