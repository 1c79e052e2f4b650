// Icons drawn with lines.
#pragma once

#include <imgui.h>

namespace ridge::ui {

enum class Icon { chat, gauges, roofline, model, quant, jobs, server, sequences, open, light, dark, keys };

// In a square at `at`.
void draw_icon(Icon icon, ImVec2 at, float size, ImU32 color);

} // namespace ridge::ui
