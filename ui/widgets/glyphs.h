// Draws scripts that the window's fonts lack with system fonts. Glyphs are rasterized on first use into a reserved part
// of ImGui's texture; all of Unicode would take seconds and exceed texture limits. ImGui's characters have 16 bits:
// higher ones use the private use area. No ligatures, right-to-left text or coloured emoji.
#pragma once

#include <imgui.h>

#include <string>
#include <string_view>

namespace ridge::ui {

// Call after adding fonts to the atlas and before each build.
void reserve_glyphs(float scale);
// If true, reload the fonts between two frames.
bool glyphs_are_full();

// Adds missing glyphs. Returns `text`, or a copy that is valid until the next call.
std::string_view showable(std::string_view text, ImFont* font);
// 0: invisible (variation selectors, joiners).
ImWchar showable(char32_t character, ImFont* font);

// Queues characters beyond 16 bits, which ImGui's queue cannot hold.
void type_far_character(char32_t character);
std::u32string take_far_characters();

} // namespace ridge::ui
