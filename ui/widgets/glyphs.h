// Text in scripts that the window's fonts do not have: Chinese, Japanese, Korean, emoji and what else some font of the
// system knows. Glyphs are rasterized when they are first drawn, into a corner of ImGui's font texture that is kept
// free for them, because drawing all of Unicode beforehand would take seconds and a texture larger than GPUs have.
//
// ImGui's characters have 16 bits here: what lies beyond them is drawn through characters of the private use area.
// Limits: no ligatures, no right-to-left order, no colours of emoji.
#pragma once

#include <imgui.h>

#include <string>
#include <string_view>

namespace ridge::ui {

// To be called after the fonts were added to the atlas and before it is built, each time.
void reserve_glyphs(float scale);
// Whether the corner is full: the fonts are then to be loaded again between two frames.
bool glyphs_are_full();

// The text as it can be drawn with `font`, glyphs made where they were missing: `text` itself, or a copy that lives
// until the next call.
std::string_view showable(std::string_view text, ImFont* font);
// Likewise for one character; 0: it has no picture of its own (variation selectors, joiners).
ImWchar showable(char32_t character, ImFont* font);

// Characters beyond 16 bits that were typed, which ImGui's queue cannot hold; taken off when they are read.
void type_far_character(char32_t character);
std::u32string take_far_characters();

} // namespace ridge::ui
