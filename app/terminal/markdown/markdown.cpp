#include "app/terminal/markdown/markdown.h"

#include "app/terminal/markdown/styled_text.h"
#include "app/terminal/markdown/word_wrap.h"
#include "core/strings/utf8.h"
#include "text/markdown/events.h"
#include "text/markdown/hidden_formulas.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace ridge::app {
namespace {

constexpr int kMinRoom = 8; // least text width in nested lists

struct Cell {
  StyledText text;
  MD_ALIGN align = MD_ALIGN_DEFAULT;
};

class Renderer {
 public:
  Renderer(std::string_view source, int columns)
      : source_(source), formulas_(source), columns_(std::max(columns, kMinRoom)) {}

  std::vector<std::string> lines() {
    text::MarkdownEvents(*this).parse(formulas_.copy());
    return std::move(lines_);
  }

 private:
  struct List {
    bool ordered, tight;
    unsigned next;
    bool begun = false;
  };

  friend text::MarkdownEvents<Renderer>;

  void enter(MD_BLOCKTYPE type, void* detail) {
    switch (type) {
    case MD_BLOCK_QUOTE:
      begin_block();
      prefixes_.push_back("│ ");
      first_inside_ = true;
      break;
    case MD_BLOCK_UL: begin_list({false, static_cast<MD_BLOCK_UL_DETAIL*>(detail)->is_tight != 0, 0}); break;
    case MD_BLOCK_OL: {
      const auto* list = static_cast<MD_BLOCK_OL_DETAIL*>(detail);
      begin_list({true, list->is_tight != 0, list->start});
      break;
    }
    case MD_BLOCK_LI: begin_item(*static_cast<MD_BLOCK_LI_DETAIL*>(detail)); break;
    case MD_BLOCK_HR:
      begin_block();
      put_line(styled("────────", Style::dim));
      break;
    case MD_BLOCK_H:
      begin_block();
      text_.push(Style::bold);
      break;
    case MD_BLOCK_CODE:
      begin_block();
      code_ = std::string();
      break;
    case MD_BLOCK_P: begin_block(); break;
    case MD_BLOCK_TABLE:
      begin_block();
      rows_.clear();
      break;
    case MD_BLOCK_TR: rows_.emplace_back(); break;
    case MD_BLOCK_TH: text_.push(Style::bold); break;
    default: break;
    }
  }

  void leave(MD_BLOCKTYPE type, void* detail) {
    switch (type) {
    case MD_BLOCK_QUOTE: end_prefix(); break;
    case MD_BLOCK_UL:
    case MD_BLOCK_OL: lists_.pop_back(); break;
    case MD_BLOCK_LI:
      put_text();
      end_prefix();
      break;
    case MD_BLOCK_H:
      text_.pop();
      put_text();
      break;
    case MD_BLOCK_P: put_text(); break;
    case MD_BLOCK_CODE: put_code(); break;
    case MD_BLOCK_TABLE: put_table(); break;
    case MD_BLOCK_TH: text_.pop(); [[fallthrough]];
    case MD_BLOCK_TD:
      behind_formula_ = false;
      rows_.back().push_back({std::exchange(text_, {}), static_cast<MD_BLOCK_TD_DETAIL*>(detail)->align});
      break;
    default: break;
    }
  }

  void enter(MD_SPANTYPE type, void* detail) {
    switch (type) {
    case MD_SPAN_EM: text_.push(Style::italic); break;
    case MD_SPAN_STRONG: text_.push(Style::bold); break;
    case MD_SPAN_DEL: text_.push(Style::struck); break;
    case MD_SPAN_CODE: text_.push(Style::code); break;
    case MD_SPAN_A: begin_link(static_cast<MD_SPAN_A_DETAIL*>(detail)->href); break;
    case MD_SPAN_IMG: begin_link(static_cast<MD_SPAN_IMG_DETAIL*>(detail)->src); break;
    default: text_.push(Style::plain); break;
    }
  }

  void leave(MD_SPANTYPE type) {
    text_.pop();
    if (type == MD_SPAN_A || type == MD_SPAN_IMG) end_link();
  }

  void take(MD_TEXTTYPE type, std::string_view text) {
    const bool own = formulas_.is_in_copy(text.data()) && !text.empty();
    if (code_) {
      *code_ += own ? formulas_.original(text) : std::string(text);
    } else if (type == MD_TEXT_BR) {
      add("\n");
    } else if (type == MD_TEXT_SOFTBR) {
      add(" ");
    } else if (type == MD_TEXT_ENTITY) {
      add(character_of(text));
    } else if (type == MD_TEXT_CODE && own) {
      add(formulas_.original(text));
    } else if (own) {
      formulas_.split(
          text, [&](std::string_view part) { add(part); },
          [&](const text::FormulaPlace& formula) { add_formula(formula); });
    } else {
      add(text);
    }
  }

  // Text after a display formula starts a new line.
  void add(std::string_view text) {
    if (behind_formula_ && text.find_first_not_of(" \n") == text.npos) return;
    if (std::exchange(behind_formula_, false)) {
      text_.add("\n");
      text.remove_prefix(text.find_first_not_of(" \n"));
    }
    text_.add(text);
  }

  // As Unicode if possible, otherwise as source.
  void add_formula(const text::FormulaPlace& formula) {
    const text::ShownFormula shown = text::shown_formula(formula.latex(source_));
    if (formula.display && !text_.empty()) text_.add("\n");
    add(shown.unicode ? shown.text : std::string(source_.substr(formula.begin, formula.end - formula.begin)));
    behind_formula_ = formula.display;
  }

  // Entities such as "&amp;"; unknown ones stay.
  static std::string character_of(std::string_view entity) {
    constexpr std::pair<std::string_view, std::string_view> kKnown[] = {
        {"&amp;", "&"},  {"&lt;", "<"},   {"&gt;", ">"}, {"&quot;", "\""},
        {"&apos;", "'"}, {"&nbsp;", " "}, {"&#39;", "'"}};
    for (const auto& [name, character] : kKnown)
      if (entity == name) return std::string(character);
    return std::string(entity);
  }

  void begin_link(const MD_ATTRIBUTE& address) {
    const std::string_view text(address.text ? address.text : "", address.size);
    links_.emplace_back(formulas_.is_in_copy(text.data()) ? formulas_.original(text) : std::string(text),
                        text_.plain().size());
    text_.push(Style::underlined);
  }

  // Appends the address unless it is the text.
  void end_link() {
    const auto [address, begin] = std::exchange(links_.back(), {});
    links_.pop_back();
    const std::string shown = text_.plain().substr(begin);
    if (address.empty() || address == shown || address == "mailto:" + shown || address == "http://" + shown) return;
    text_.push(Style::dim);
    text_.add(fmt::format(" ({})", address));
    text_.pop();
  }

  void begin_list(List list) {
    put_text();
    if (lists_.empty()) begin_block();
    lists_.push_back(list);
  }

  void begin_item(const MD_BLOCK_LI_DETAIL& item) {
    if (!lists_.back().tight && lists_.back().begun) begin_block();
    lists_.back().begun = true;
    std::string mark = lists_.back().ordered ? fmt::format("{}. ", lists_.back().next++) : "• ";
    if (item.is_task) mark = item.task_mark == ' ' ? "☐ " : "☑ ";
    prefixes_.push_back(std::string(static_cast<size_t>(shown_width(mark)), ' '));
    mark_ = mark;
    first_inside_ = true;
  }

  void end_prefix() {
    if (!mark_.empty()) put_line("");
    prefixes_.pop_back();
  }

  void begin_block() {
    put_text();
    const bool first = std::exchange(first_inside_, false) || lines_.empty();
    if (!first) put_line("");
  }

  int room() const {
    int taken = 0;
    for (const std::string& prefix : prefixes_) taken += shown_width(prefix);
    return std::max(columns_ - taken, kMinRoom);
  }

  void put_line(const std::string& line) {
    std::string whole;
    for (size_t i = 0; i < prefixes_.size(); ++i) {
      const bool is_mark = i + 1 == prefixes_.size() && !mark_.empty();
      whole += is_mark ? std::exchange(mark_, {}) : prefixes_[i];
    }
    whole += line;
    if (line.empty()) whole.erase(whole.find_last_not_of(' ') + 1);
    lines_.push_back(std::move(whole));
  }

  void put_text() {
    behind_formula_ = false;
    if (text_.empty()) return;
    first_inside_ = false;
    for (const std::string& line : std::exchange(text_, text_.empty_copy()).wrapped(room())) put_line(line);
  }

  void put_code() {
    std::string code = *std::exchange(code_, std::nullopt);
    while (code.ends_with('\n')) code.pop_back();
    for (size_t at = 0; at <= code.size();) {
      const size_t end = std::min(code.find('\n', at), code.size());
      put_line(styled(code.substr(at, end - at), Style::code));
      at = end + 1;
    }
  }

  // If the widest cells do not fit, cells wrap.
  void put_table() {
    size_t count = 0;
    for (const auto& row : rows_) count = std::max(count, row.size());
    if (count == 0) return;
    std::vector<int> widths(count, 1);
    for (const auto& row : rows_)
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].text.width());
    const auto sum = [&] {
      int all = 3 * static_cast<int>(count - 1);
      for (const int width : widths) all += width;
      return all;
    };
    while (sum() > room()) {
      int& widest = *std::ranges::max_element(widths);
      if (widest <= 3) break;
      --widest;
    }
    for (size_t r = 0; r < rows_.size(); ++r) {
      put_table_row(rows_[r], widths);
      if (r > 0) continue;
      std::string line;
      for (size_t i = 0; i < count; ++i) {
        for (int c = 0; c < widths[i]; ++c) line += "─";
        if (i + 1 < count) line += "─┼─";
      }
      put_line(styled(line, Style::dim));
    }
    rows_.clear();
  }

  void put_table_row(std::vector<Cell>& row, const std::vector<int>& widths) {
    std::vector<std::vector<std::string>> cells(widths.size());
    size_t height = 1;
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i) {
      cells[i] = row[i].text.wrapped(widths[i]);
      height = std::max(height, cells[i].size());
    }
    for (size_t h = 0; h < height; ++h) {
      std::string line;
      for (size_t i = 0; i < widths.size(); ++i) {
        const std::string cell = h < cells[i].size() ? cells[i][h] : "";
        const int space = std::max(widths[i] - shown_width(cell), 0);
        const MD_ALIGN align = i < row.size() ? row[i].align : MD_ALIGN_DEFAULT;
        const int before = align == MD_ALIGN_RIGHT ? space : align == MD_ALIGN_CENTER ? space / 2 : 0;
        line.append(static_cast<size_t>(before), ' ');
        line += cell;
        if (i + 1 < widths.size()) {
          line.append(static_cast<size_t>(space - before), ' ');
          line += styled(" │ ", Style::dim);
        }
      }
      put_line(line);
    }
  }

  const std::string_view source_;
  const text::HiddenFormulas formulas_;
  const int columns_;
  std::vector<std::string> lines_;
  std::vector<std::string> prefixes_; // of quotes and lists
  std::string mark_;                  // replaces the last prefix once
  bool first_inside_ = false;         // the item or quote is empty
  std::vector<List> lists_;
  StyledText text_;
  bool behind_formula_ = false; // after a display formula
  std::vector<std::pair<std::string, size_t>> links_;
  std::optional<std::string> code_;
  std::vector<std::vector<Cell>> rows_;
};

} // namespace

std::vector<std::string> markdown_lines(std::string_view source, int columns) {
  return Renderer(source, columns).lines();
}

bool Fences::take(std::string_view line) {
  const std::string_view whole = line;
  const size_t first = std::min(line.find_first_not_of(' '), line.size());
  line.remove_prefix(first);
  const bool may_be = first <= 3 && !line.empty() && (line[0] == '`' || line[0] == '~');
  const size_t marks = may_be ? std::min(line.find_first_not_of(line[0]), line.size()) : 0;
  if (marks < 3 || marks < open_) return false;
  if (open_ > 0 && whole.find_first_not_of(" `~") != whole.npos) return false;
  open_ = open_ > 0 ? 0 : marks;
  return true;
}

int shown_width(std::string_view line) {
  int columns = 0;
  while (!line.empty()) {
    if (line[0] == '\033') { // escape sequence
      const size_t end = line.find_first_of("mK");
      line.remove_prefix(end == line.npos ? line.size() : end + 1);
    } else {
      columns += display_width(core::take_character(line));
    }
  }
  return columns;
}

namespace {

enum class Begins { unknown, a_block, perhaps_more_of_the_last };

// Indented lines and items may belong to the list before. `whole`: the line is complete.
Begins beginning_of(std::string_view line, bool whole) {
  if (line.empty() || line[0] == ' ' || line[0] == '\t') return Begins::perhaps_more_of_the_last;
  size_t mark = std::min(line.find_first_not_of("0123456789"), line.size());
  const bool digits = mark > 0;
  if (mark < line.size() &&
      (digits ? line[mark] == '.' || line[mark] == ')' : line[0] == '-' || line[0] == '*' || line[0] == '+'))
    ++mark;
  else if (!digits || mark < line.size())
    return Begins::a_block;
  if (mark == line.size()) return whole ? Begins::perhaps_more_of_the_last : Begins::unknown;
  return line[mark] == ' ' || line[mark] == '\t' ? Begins::perhaps_more_of_the_last : Begins::a_block;
}

} // namespace

size_t unfinished_block(std::string_view source) {
  size_t begin = 0;
  Fences fences;
  bool was_empty = false;
  for (size_t at = 0; at < source.size();) {
    const size_t end = source.find('\n', at);
    const std::string_view line = source.substr(at, end == source.npos ? source.npos : end - at);
    const bool is_empty = line.find_first_not_of(" \t") == line.npos;
    if (!fences.in_code() && was_empty && !is_empty && beginning_of(line, end != source.npos) == Begins::a_block)
      begin = at;
    fences.take(line);
    was_empty = is_empty && !fences.in_code();
    if (end == source.npos) break;
    at = end + 1;
  }
  return begin;
}

} // namespace ridge::app
