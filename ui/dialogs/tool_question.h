// Asks before an MCP tool is called.
#pragma once

#include "core/view/snapshot.h"

#include <functional>

namespace ridge::ui {

class ToolQuestionDialog {
 public:
  void draw(const core::Snapshot& now, const std::function<void(core::Intent)>& send); // once a frame
};

} // namespace ridge::ui
