// The window. It is redrawn only when something changes.
#pragma once

#include "api/snapshot.h"
#include "ui/frame_times.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ridge::ui {

struct WindowOptions {
  // Empty, 0 or nothing: as in the last run.
  std::string panel; // a name of panels()
  int width = 0, height = 0;
  std::optional<bool> light;
  std::string layout_file; // empty: not saved
  std::string screenshot;  // written when a model is open and the engine idle; then closes
  int after_frames = 30;   // frames after that
  bool enable_widget_positions = false;
};

struct EngineLink {
  std::function<std::shared_ptr<const api::Snapshot>()> snapshot;
  std::function<void(api::Intent)> send;
};

class Window {
 public:
  // Throws Error without display or OpenGL 3, or for an unknown panel.
  explicit Window(WindowOptions options);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  void wake();                        // any thread: new snapshot
  void close();                       // any thread
  std::string panel() const;          // any thread; name of the current panel
  uint64_t frames() const;            // any thread
  bool is_waiting_for_events() const; // any thread
  const FrameTimes& frame_times() const;
  void run(const EngineLink& engine); // Throws Error if the screenshot fails.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace ridge::ui
