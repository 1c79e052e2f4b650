// The window's colours, fonts and sizes.
#pragma once

#include <imgui.h>

namespace ridge::ui {

struct Theme {
  ImU32 background, surface, raised, border; // back to front
  ImU32 text, dim;                           // contrast at least 7 : 1 and 4.5 : 1
  ImU32 accent, on_accent;
  ImU32 red, green, amber;
  ImU32 keyword, string, number; // in code
  ImU32 series[8];               // distinct; legible under `text`
};
const Theme& theme();

// `scale`: pixels per unit. Call between frames, after load_fonts().
void apply_theme(bool dark, float scale);

struct Fonts {
  // numeral: digits and letters; heading: between bold and title
  ImFont *body, *small, *bold, *title, *mono, *numeral, *heading;
};
const Fonts& fonts();
// Loads DejaVu or Noto, otherwise ImGui's font.
void load_fonts(float scale);

float px(float units); // units to pixels

ImVec4 to_vec4(ImU32 color);
ImU32 with_alpha(ImU32 color, float alpha);
ImU32 mix(ImU32 a, ImU32 b, float share_of_b);

} // namespace ridge::ui
