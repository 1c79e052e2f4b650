// Asks before an MCP tool is called.
#pragma once

#include "api/snapshot.h"

#include <functional>

namespace ridge::ui {

class ToolQuestionDialog {
 public:
  void draw(const api::Snapshot& now, const std::function<void(api::Intent)>& send); // once a frame
};

} // namespace ridge::ui
