// Load settings and the resulting fit.
#pragma once

#include "api/snapshot.h"

#include <functional>
#include <string>

namespace ridge::ui {

class LoadSettings {
 public:
  void begin(const api::Snapshot& now);
  // Fills the current ImGui window. `path`: the chosen model, or empty.
  void draw(const api::Snapshot& now, const std::function<void(api::Intent)>& send, const std::string& path);
  const api::ModelOptions& options() const { return options_; }

 private:
  bool draw_fields(const api::Snapshot& now);
  void draw_fit(const api::Snapshot& now, const std::string& path) const;

  api::ModelOptions options_;
  std::string asked_; // path of the last FitModel
  std::string gpus_;
};

} // namespace ridge::ui
