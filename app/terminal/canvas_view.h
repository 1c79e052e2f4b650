// A text that a diffusion model fills in, as it forms: what is decided, and blocks where nothing is yet. It is drawn
// again after each step, in place, on a terminal only.
#pragma once

#include "engine/answer.h"

#include <string>
#include <utility>
#include <vector>

namespace ridge::app {

// The text of an answer's places, a block for each that is not decided, without what could steer a terminal; at most
// `lines` of `columns` are left of it, the last ones that have something decided.
std::string canvas_text(const text::Tokenizer& tokenizer, int32_t mask, std::span<const int32_t> answer, int columns,
                        int lines);

class CanvasView {
 public:
  // Draws what the answerer's model decides. A model that writes word by word, or an output that is no terminal, leaves
  // it out. Both must outlive it.
  CanvasView(const engine::LoadedModel& model, engine::Answerer& answerer);
  ~CanvasView();
  CanvasView(const CanvasView&) = delete;
  CanvasView& operator=(const CanvasView&) = delete;

  bool on() const { return on_; }
  // Takes parts of the answer, to print them in place of the view when the answer has ended.
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
