// Shows a diffusion model's answer while it forms, redrawn after each step.
#pragma once

#include "engine/chat/answer.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ridge::app {

// The last `lines` lines of this many columns.
std::string fitting_rows(std::string_view text, int columns, int lines);

class CanvasView {
 public:
  // Does nothing for autoregressive models or without a terminal. Both must outlive it.
  CanvasView(const engine::LoadedModel& model, engine::Answerer& answerer);
  ~CanvasView();
  CanvasView(const CanvasView&) = delete;
  CanvasView& operator=(const CanvasView&) = delete;

  bool on() const { return on_; }
  // Collects text to print in place of the view at the end.
  void keep(std::string_view text, bool reasoning) { parts_.emplace_back(text, reasoning); }
  void print_kept(const engine::TextSink& sink);

 private:
  void draw(std::span<const int32_t> answer);
  void clear();

  const engine::LoadedModel& model_;
  engine::Answerer& answerer_;
  bool on_ = false;
  int32_t mask_ = -1;
  int64_t drawn_lines_ = 0;
  std::vector<std::pair<std::string, bool>> parts_;
};

} // namespace ridge::app
