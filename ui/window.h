// The window: a frame around panels, drawn when there is something new to see and not otherwise.
#pragma once

#include "core/view/snapshot.h"
#include "ui/frame_times.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ridge::ui {

struct WindowOptions {
  // Empty, 0 or nothing: as it was when the window was last closed.
  std::string panel; // the first to be shown: a name of panels()
  int width = 0, height = 0;
  std::optional<bool> light;
  std::string layout_file;  // where that is remembered; empty: nowhere
  std::string screenshot;   // write this PNG and close: once a model is open and nothing is being written or studied
  int after_frames = 30;    // so many frames after that
  bool keep_places = false; // for tests: ui/widgets/places.h
};

// Where the window gets its snapshots and sends its intents.
struct EngineLink {
  std::function<std::shared_ptr<const core::Snapshot>()> snapshot;
  std::function<void(core::Intent)> send;
};

class Window {
 public:
  // Throws Error where there is no display, no OpenGL 3, or no panel of that name.
  explicit Window(WindowOptions options);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  void wake();                           // from any thread: there is a new snapshot
  void close();                          // from any thread
  std::string panel() const;             // from any thread: the name of the one that is shown
  uint64_t frames() const;               // from any thread: how many were drawn
  bool is_at_rest() const;               // from any thread: it draws nothing before there is an event
  const FrameTimes& frame_times() const; // of run() so far
  void run(const EngineLink& engine); // until the user closes it. Throws Error where the screenshot cannot be written.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace ridge::ui
