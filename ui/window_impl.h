// Internals of Window.
#pragma once

#include "ui/dialogs/file_dialog.h"
#include "ui/dialogs/load_settings.h"
#include "ui/dialogs/tool_question.h"
#include "ui/panels/layout.h"
#include "ui/panels/panel.h"
#include "ui/window.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

struct GLFWwindow;

namespace ridge::ui {

constexpr int kSettlingFrames = 4; // frames after an event: hover and layout lag

struct Window::Impl {
  WindowOptions options;
  GLFWwindow* window = nullptr;
  std::vector<std::unique_ptr<Panel>> shown;
  std::atomic<size_t> panel = 0;
  std::atomic<uint64_t> frames = 0;
  std::atomic<bool> at_rest = false;
  bool dark = true, rescale = true, help = false, help_open = false;
  float scale = 1; // without zoom
  int frames_wanted = kSettlingFrames;
  uint64_t dismissed_error = 0, dismissed_notice = 0;
  const EngineLink* engine = nullptr;
  std::vector<int> pressed_keys;
  FileDialog dialog;
  ToolQuestionDialog tool_question;
  LoadSettings load_settings;
  Layout layout, saved_layout;
  FrameTimes frame_times;

  void open();
  void draw_frame();
  void fit_on_screen();
  std::vector<int> hold_short_presses();
  void draw_window(const api::Snapshot& now);
  void draw_no_model(const api::Snapshot& now);
  void draw_rail(bool narrow);
  void draw_status(const api::Snapshot& now) const;
  void draw_error(const api::Snapshot& now);
  void draw_notices(const api::Snapshot& now);
  void draw_help();
  void take_keys(const api::Snapshot& now);
  void ask_for_file();
  // options: empty: unchanged
  void open_path(const std::string& path, std::optional<api::ModelOptions> options = std::nullopt);
  void take_dropped(const std::vector<std::string>& paths);
  void show_panel(std::string_view name);
  void save_screenshot() const;
  void set_dark(bool now_dark);
  void set_zoom(int percent);
  float zoomed() const { return scale * static_cast<float>(layout.zoom) / 100; }
  void remember();
};

} // namespace ridge::ui
