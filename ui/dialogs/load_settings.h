// Load settings and the resulting fit.
#pragma once

#include "core/view/snapshot.h"

#include <functional>
#include <string>

namespace ridge::ui {

class LoadSettings {
 public:
  void begin(const core::Snapshot& now);
  // Fills the current ImGui window. `path`: the chosen model, or empty.
  void draw(const core::Snapshot& now, const std::function<void(core::Intent)>& send, const std::string& path);
  const core::ModelOptions& options() const { return options_; }

 private:
  bool draw_fields(const core::Snapshot& now);
  void draw_fit(const core::Snapshot& now, const std::string& path) const;

  core::ModelOptions options_;
  std::string asked_; // path of the last FitModel
  std::string gpus_;
};

} // namespace ridge::ui
