// Colours, fonts and sizes: everything that decides how the window looks, in one place, for a light and a dark room.
#pragma once

#include <imgui.h>

namespace ridge::ui {

struct Theme {
  ImU32 background, surface, raised, border; // from the back to the front
  ImU32 text, dim;                           // contrast to every background at least 7 : 1 and 4.5 : 1
  ImU32 accent, on_accent;
  ImU32 red, green, amber;
  ImU32 keyword, string, number; // of code
  ImU32 series[8];               // tell things apart; legible under `text`
};
const Theme& theme();
bool is_dark();

// `scale`: pixels per unit, 1 on an ordinary screen. To be called between frames, after load_fonts().
void apply_theme(bool dark, float scale);

struct Fonts {
  // numeral: big, digits and letters only; heading: between bold and title
  ImFont *body, *small, *bold, *title, *mono, *numeral, *heading;
};
const Fonts& fonts();
// DejaVu or Noto, wherever the system keeps them; ImGui's own where there is neither.
void load_fonts(float scale);

float px(float units); // units to pixels

ImVec4 to_vec4(ImU32 color);
ImU32 with_alpha(ImU32 color, float alpha);
ImU32 mix(ImU32 a, ImU32 b, float share_of_b);

} // namespace ridge::ui
