// What types of KV caches cost by length of context (core/kv_divergence.h).
#pragma once

#include "ui/panels/panel.h"

namespace ridge::ui {

void draw_caches(const View& view, ImVec2 size);

} // namespace ridge::ui
