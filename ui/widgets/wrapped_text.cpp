#include "ui/widgets/wrapped_text.h"

#include "core/strings/utf8.h"

#include <algorithm>
#include <cstring>

namespace ridge::ui {
namespace {

struct Layout {
  std::u32string text;
  float width = 1e9f, line_height = 1;
  std::function<float(char32_t)> advance = [](char32_t) { return 1.0f; };

  float advance_of(int i) const { return text[i] == '\n' ? 0 : advance(text[i]); }
  // Breaks after a line break, at the last space that fits, or at the width.
  int row_end(int begin) const {
    float x = 0;
    int space = -1;
    for (int i = begin; i < static_cast<int>(text.size()); ++i) {
      if (text[i] == '\n') return i + 1;
      x += advance_of(i);
      if (text[i] == ' ')
        space = i; // trailing spaces may stick out
      else if (x > width && i > begin)
        return space >= 0 ? space + 1 : i;
    }
    return static_cast<int>(text.size());
  }
};

} // namespace
} // namespace ridge::ui

// stb_textedit's configuration; keys lie beyond Unicode.
#define STB_TEXTEDIT_CHARTYPE char32_t
#define STB_TEXTEDIT_STRING ridge::ui::Layout
#define STB_TEXTEDIT_POSITIONTYPE int
#define STB_TEXTEDIT_UNDOCHARCOUNT 8192
#include <stb_textedit.h>

namespace ridge::ui {
namespace {

constexpr int kKeys = 0x200000, kShift = 0x400000;
constexpr int key_code(EditKey key) { return kKeys + static_cast<int>(key); }

int length_of(const Layout* layout) { return static_cast<int>(layout->text.size()); }
void layout_row(StbTexteditRow* row, Layout* layout, int begin) {
  const int end = layout->row_end(begin);
  row->x0 = row->x1 = 0;
  for (int i = begin; i < end; ++i) row->x1 += layout->advance_of(i);
  row->baseline_y_delta = layout->line_height;
  row->ymin = 0;
  row->ymax = layout->line_height;
  row->num_chars = end - begin;
}
float width_of(Layout* layout, int begin, int i) {
  return layout->text[begin + i] == '\n' ? -1 : layout->advance_of(begin + i); // -1: the break
}
void remove_characters(Layout* layout, int at, int count) { layout->text.erase(at, count); }
int insert_characters(Layout* layout, int at, const char32_t* characters, int count) {
  layout->text.insert(at, characters, count);
  return 1;
}

} // namespace
} // namespace ridge::ui

#define STB_TEXTEDIT_STRINGLEN(o) ridge::ui::length_of(o)
#define STB_TEXTEDIT_LAYOUTROW(r, o, n) ridge::ui::layout_row(r, o, n)
#define STB_TEXTEDIT_GETWIDTH(o, n, i) ridge::ui::width_of(o, n, i)
#define STB_TEXTEDIT_GETWIDTH_NEWLINE -1.0f
#define STB_TEXTEDIT_KEYTOTEXT(k) ((k) >= ridge::ui::kKeys ? -1 : (k))
#define STB_TEXTEDIT_GETCHAR(o, i) ((o)->text[i])
#define STB_TEXTEDIT_NEWLINE U'\n'
#define STB_TEXTEDIT_DELETECHARS(o, i, n) ridge::ui::remove_characters(o, i, n)
#define STB_TEXTEDIT_INSERTCHARS(o, i, c, n) ridge::ui::insert_characters(o, i, c, n)
#define STB_TEXTEDIT_IS_SPACE(c) ((c) == ' ' || (c) == '\n' || (c) == '\t')
#define STB_TEXTEDIT_K_SHIFT ridge::ui::kShift
#define STB_TEXTEDIT_K_LEFT ridge::ui::key_code(ridge::ui::EditKey::left)
#define STB_TEXTEDIT_K_RIGHT ridge::ui::key_code(ridge::ui::EditKey::right)
#define STB_TEXTEDIT_K_UP ridge::ui::key_code(ridge::ui::EditKey::up)
#define STB_TEXTEDIT_K_DOWN ridge::ui::key_code(ridge::ui::EditKey::down)
#define STB_TEXTEDIT_K_PGUP (ridge::ui::kKeys + 100)
#define STB_TEXTEDIT_K_PGDOWN (ridge::ui::kKeys + 101)
#define STB_TEXTEDIT_K_LINESTART ridge::ui::key_code(ridge::ui::EditKey::line_start)
#define STB_TEXTEDIT_K_LINEEND ridge::ui::key_code(ridge::ui::EditKey::line_end)
#define STB_TEXTEDIT_K_TEXTSTART ridge::ui::key_code(ridge::ui::EditKey::text_start)
#define STB_TEXTEDIT_K_TEXTEND ridge::ui::key_code(ridge::ui::EditKey::text_end)
#define STB_TEXTEDIT_K_WORDLEFT ridge::ui::key_code(ridge::ui::EditKey::word_left)
#define STB_TEXTEDIT_K_WORDRIGHT ridge::ui::key_code(ridge::ui::EditKey::word_right)
#define STB_TEXTEDIT_K_DELETE ridge::ui::key_code(ridge::ui::EditKey::remove)
#define STB_TEXTEDIT_K_BACKSPACE ridge::ui::key_code(ridge::ui::EditKey::backspace)
#define STB_TEXTEDIT_K_UNDO ridge::ui::key_code(ridge::ui::EditKey::undo)
#define STB_TEXTEDIT_K_REDO ridge::ui::key_code(ridge::ui::EditKey::redo)
#define STB_TEXTEDIT_IMPLEMENTATION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wsign-compare"
namespace {
#include <stb_textedit.h>
}
#pragma GCC diagnostic pop

namespace ridge::ui {

struct WrappedText::State {
  Layout layout;
  STB_TexteditState edit;
};

WrappedText::WrappedText() : state_(std::make_unique<State>()) { stb_textedit_initialize_state(&state_->edit, 0); }
WrappedText::~WrappedText() = default;

void WrappedText::set(std::string_view utf8) {
  state_->layout.text.clear();
  while (!utf8.empty()) state_->layout.text += core::take_character(utf8);
  stb_textedit_initialize_state(&state_->edit, 0);
  state_->edit.cursor = state_->edit.select_start = state_->edit.select_end = length_of(&state_->layout);
}

std::string WrappedText::utf8() const {
  std::string text;
  for (const char32_t c : state_->layout.text) core::append_utf8(text, c);
  return text;
}

const std::u32string& WrappedText::characters() const { return state_->layout.text; }

void WrappedText::set_layout(float width, float line_height, std::function<float(char32_t)> advance) {
  state_->layout.width = width;
  state_->layout.line_height = line_height;
  state_->layout.advance = std::move(advance);
}

std::vector<WrappedText::Row> WrappedText::rows() const {
  std::vector<Row> rows;
  const std::u32string& text = state_->layout.text;
  for (int begin = 0; begin < static_cast<int>(text.size()); begin = rows.back().end)
    rows.push_back({begin, state_->layout.row_end(begin)});
  const int end = static_cast<int>(text.size());
  if (text.empty() || text.back() == '\n') rows.push_back({end, end});
  return rows;
}

void WrappedText::press(EditKey key, bool select) {
  stb_textedit_key(&state_->layout, &state_->edit, key_code(key) | (select ? kShift : 0));
}
void WrappedText::type(char32_t character) {
  stb_textedit_key(&state_->layout, &state_->edit, static_cast<int>(character));
}
void WrappedText::paste(std::string_view utf8) {
  std::u32string characters;
  while (!utf8.empty())
    if (const char32_t c = core::take_character(utf8); c != '\r') characters += c;
  stb_textedit_paste(&state_->layout, &state_->edit, characters.data(), static_cast<int>(characters.size()));
}
void WrappedText::click(float x, float y) { stb_textedit_click(&state_->layout, &state_->edit, x, y); }
void WrappedText::drag(float x, float y) { stb_textedit_drag(&state_->layout, &state_->edit, x, y); }

void WrappedText::select_all() {
  state_->edit.select_start = 0;
  state_->edit.cursor = state_->edit.select_end = length_of(&state_->layout);
}

void WrappedText::select_word() {
  const std::u32string& text = state_->layout.text;
  const auto word = [&](int i) { return text[i] != ' ' && text[i] != '\n'; };
  int begin = state_->edit.cursor, end = begin;
  while (begin > 0 && word(begin - 1)) --begin;
  while (end < static_cast<int>(text.size()) && word(end)) ++end;
  state_->edit.select_start = begin;
  state_->edit.cursor = state_->edit.select_end = end;
}

std::string WrappedText::selected() const {
  const auto [begin, end] = selection();
  std::string text;
  for (int i = begin; i < end; ++i) core::append_utf8(text, state_->layout.text[i]);
  return text;
}
void WrappedText::cut() { stb_textedit_cut(&state_->layout, &state_->edit); }

int WrappedText::cursor() const { return std::min(state_->edit.cursor, length_of(&state_->layout)); }
std::pair<int, int> WrappedText::selection() const {
  const int most = length_of(&state_->layout);
  const auto [begin, end] = std::minmax(state_->edit.select_start, state_->edit.select_end);
  return {std::min(begin, most), std::min(end, most)};
}

} // namespace ridge::ui
