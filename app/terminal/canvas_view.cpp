#include "app/terminal/canvas_view.h"

#include "app/terminal/markdown/word_wrap.h"
#include "app/terminal/streams.h"
#include "app/terminal/terminal.h"
#include "core/strings/utf8.h"
#include "engine/diffusion/canvas.h"
#include "engine/diffusion/canvas_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::app {

std::string fitting_rows(std::string_view text, int columns, int lines) {
  std::vector<std::string> rows(1);
  int column = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view character = rest.substr(0, core::utf8_step(rest));
    rest.remove_prefix(character.size());
    const int width = character == "\n" ? 0 : display_width(core::utf8_code_point(character));
    if (character == "\n" || column + width > columns) {
      rows.emplace_back();
      column = 0;
    }
    if (character == "\n") continue;
    rows.back() += character;
    column += width;
  }
  const auto first = std::max<int64_t>(0, std::ssize(rows) - lines);
  std::string shown;
  for (int64_t i = first; i < std::ssize(rows); ++i) shown += (i > first ? "\n" : "") + rows[i];
  return shown;
}

CanvasView::CanvasView(const engine::LoadedModel& model, engine::Answerer& answerer)
    : model_(model), answerer_(answerer) {
  on_ = core::sees_ahead(model.program) && stdout_is_terminal() && use_color() && terminal_columns() > 2;
  if (!on_) return;
  mask_ = engine::diffusion_of(model.file, {}).mask;
  answerer_.on_canvas = [this](std::span<const int32_t> answer) { draw(answer); };
}

CanvasView::~CanvasView() {
  if (!on_) return;
  answerer_.on_canvas = nullptr;
  clear();
}

void CanvasView::draw(std::span<const int32_t> answer) {
  const std::string text = fitting_rows(engine::canvas_text(model_.need_tokenizer(), mask_, answer), terminal_columns(),
                                        std::max(1, terminal_rows() - 1));
  clear();
  write_stdout(dim(text) + "\n");
  drawn_lines_ = std::ranges::count(text, '\n') + 1;
}

void CanvasView::clear() {
  if (drawn_lines_ > 0) write_stdout(fmt::format("\x1b[{}A\r\x1b[J", drawn_lines_));
  drawn_lines_ = 0;
}

void CanvasView::print_kept(const engine::TextSink& sink) {
  clear();
  for (const auto& [text, reasoning] : parts_) sink(text, reasoning);
  parts_.clear();
}

} // namespace ridge::app
