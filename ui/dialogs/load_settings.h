// What a model is to be opened with, and how it would fit: beside the list of models to open.
#pragma once

#include "core/view/snapshot.h"

#include <functional>
#include <string>

namespace ridge::ui {

class LoadSettings {
 public:
  void begin(const core::Snapshot& now); // with the settings that count
  // Fills the ImGui window that it is called in. `path`: of the model that is chosen; empty: none is.
  void draw(const core::Snapshot& now, const std::function<void(core::Intent)>& send, const std::string& path);
  const core::ModelOptions& options() const { return options_; }

 private:
  bool draw_fields(const core::Snapshot& now);
  void draw_fit(const core::Snapshot& now, const std::string& path) const;

  core::ModelOptions options_;
  std::string asked_; // the path whose fit was asked for
  std::string gpus_;  // as they are typed
};

} // namespace ridge::ui
