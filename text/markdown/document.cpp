#include "text/markdown/document.h"

#include "core/strings/utf8.h"
#include "text/markdown/events.h"
#include "text/markdown/hidden_formulas.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace ridge::text {
namespace {

using Kind = MarkdownBlock::Kind;
using Align = MarkdownBlock::Align;

class Parser {
 public:
  explicit Parser(std::string_view source) : source_(source), formulas_(source) {}

  std::vector<MarkdownBlock> blocks() {
    MarkdownEvents(*this).parse(formulas_.copy());
    return std::move(blocks_);
  }

 private:
  struct List {
    bool ordered, tight;
    unsigned next;
  };
  struct Span {
    uint8_t style;
    std::string address;
  };

  friend MarkdownEvents<Parser>;

  void enter(MD_BLOCKTYPE type, void* detail) {
    switch (type) {
    case MD_BLOCK_QUOTE: margins_.push_back({true, ""}); break;
    case MD_BLOCK_UL: begin_list({false, static_cast<MD_BLOCK_UL_DETAIL*>(detail)->is_tight != 0, 0}); break;
    case MD_BLOCK_OL: {
      const auto* list = static_cast<MD_BLOCK_OL_DETAIL*>(detail);
      begin_list({true, list->is_tight != 0, list->start});
      break;
    }
    case MD_BLOCK_LI: begin_item(*static_cast<MD_BLOCK_LI_DETAIL*>(detail)); break;
    case MD_BLOCK_HR:
      block_.kind = Kind::rule;
      finish();
      break;
    case MD_BLOCK_H:
      block_.kind = Kind::heading;
      block_.level = static_cast<int>(static_cast<MD_BLOCK_H_DETAIL*>(detail)->level);
      break;
    case MD_BLOCK_CODE: {
      const MD_ATTRIBUTE& language = static_cast<MD_BLOCK_CODE_DETAIL*>(detail)->lang;
      block_.kind = Kind::code;
      if (language.text) block_.language.assign(language.text, language.size);
      break;
    }
    case MD_BLOCK_TABLE: block_.kind = Kind::table; break;
    case MD_BLOCK_TR: block_.rows.emplace_back(); break;
    case MD_BLOCK_TH: spans_.push_back({kBold, ""}); break;
    default: break;
    }
  }

  void leave(MD_BLOCKTYPE type, void* detail) {
    switch (type) {
    case MD_BLOCK_QUOTE: margins_.pop_back(); break;
    case MD_BLOCK_UL:
    case MD_BLOCK_OL: lists_.pop_back(); break;
    case MD_BLOCK_LI:
      finish_text();
      if (!margins_.back().mark.empty()) finish();
      margins_.pop_back();
      break;
    case MD_BLOCK_H:
    case MD_BLOCK_P:
    case MD_BLOCK_CODE:
    case MD_BLOCK_TABLE: finish(); break;
    case MD_BLOCK_TH:
    case MD_BLOCK_TD: {
      spans_.clear();
      block_.rows.back().push_back(std::exchange(block_.runs, {}));
      if (block_.rows.size() > 1) break;
      const MD_ALIGN align = static_cast<MD_BLOCK_TD_DETAIL*>(detail)->align;
      block_.aligns.push_back(align == MD_ALIGN_RIGHT    ? Align::right
                              : align == MD_ALIGN_CENTER ? Align::center
                                                         : Align::left);
      break;
    }
    default: break;
    }
  }

  void enter(MD_SPANTYPE type, void* detail) {
    Span span = {spans_.empty() ? uint8_t{0} : spans_.back().style, spans_.empty() ? "" : spans_.back().address};
    switch (type) {
    case MD_SPAN_EM: span.style |= kItalic; break;
    case MD_SPAN_STRONG: span.style |= kBold; break;
    case MD_SPAN_DEL: span.style |= kStruck; break;
    case MD_SPAN_CODE: span.style |= kCode; break;
    case MD_SPAN_A: set_address(span, static_cast<MD_SPAN_A_DETAIL*>(detail)->href); break;
    case MD_SPAN_IMG: set_address(span, static_cast<MD_SPAN_IMG_DETAIL*>(detail)->src); break;
    default: break;
    }
    spans_.push_back(std::move(span));
  }
  void leave(MD_SPANTYPE) { spans_.pop_back(); }
  void set_address(Span& span, const MD_ATTRIBUTE& address) const {
    span.style |= kLink;
    span.address.clear();
    if (!address.text) return;
    // md4c copies an address that it changes; else it points into the text.
    span.address =
        is_in_copy(address.text) ? original({address.text, address.size}) : std::string(address.text, address.size);
  }

  bool is_in_copy(const char* text) const { return formulas_.is_in_copy(text); }
  size_t place_of(std::string_view text) const { return formulas_.place_of(text); }
  std::string original(std::string_view text) const { return formulas_.original(text); }

  void take(MD_TEXTTYPE type, std::string_view text) {
    const bool own = is_in_copy(text.data()) && !text.empty();
    if (own) last_ = place_of(text) + text.size();
    if (block_.kind == Kind::code) {
      add_code(text, own);
    } else if (type == MD_TEXT_BR) {
      add("\n", last_, false);
    } else if (type == MD_TEXT_SOFTBR) {
      add(" ", last_, false);
    } else if (type == MD_TEXT_ENTITY) {
      add(character_of(text), last_ - text.size(), false);
    } else if (type == MD_TEXT_CODE && own) {
      add(original(text), place_of(text), true);
    } else if (own) {
      add_with_formulas(text);
    } else {
      add(text, last_, false);
    }
  }

  // md4c passes indentation (not from the source), text and line end separately.
  void add_code(std::string_view text, bool own) {
    if (block_.code.empty() || block_.code.back() == '\n') {
      block_.lines.push_back({block_.code.size(), last_});
      indented_ = !own;
    }
    if (own && indented_) {
      const size_t indent = block_.code.size() - block_.lines.back().begin, place = place_of(text);
      block_.lines.back().source = place - std::min(place, indent);
      indented_ = false;
    } else if (own && block_.code.size() == block_.lines.back().begin) {
      block_.lines.back().source = place_of(text);
    }
    block_.code += own ? original(text) : std::string(text);
  }

  void add(std::string_view text, size_t source, bool verbatim) {
    const Span span = spans_.empty() ? Span{} : spans_.back();
    MarkdownRuns& runs = block_.runs;
    const bool goes_on = verbatim && !runs.empty() && runs.back().verbatim && runs.back().style == span.style &&
                         runs.back().address == span.address && runs.back().source + runs.back().text.size() == source;
    if (goes_on)
      runs.back().text += text;
    else
      runs.push_back({std::string(text), span.style, false, verbatim, source, span.address});
  }

  void add_with_formulas(std::string_view text) {
    formulas_.split(
        text, [&](std::string_view part) { add(original(part), place_of(part), true); },
        [&](const FormulaPlace& formula) { add_formula(formula); });
  }

  void add_formula(const FormulaPlace& formula) {
    ShownFormula shown = shown_formula(formula.latex(source_));
    MarkdownRun run;
    run.style = (spans_.empty() ? uint8_t{0} : spans_.back().style) | (shown.unicode ? kFormula : kLatex);
    run.display = formula.display;
    run.source = formula.begin;
    run.text = std::move(shown.text);
    block_.runs.push_back(std::move(run));
  }

  // Unknown entities stay verbatim.
  static std::string character_of(std::string_view entity) {
    constexpr std::pair<std::string_view, std::string_view> kKnown[] = {
        {"&amp;", "&"},  {"&lt;", "<"},    {"&gt;", ">"},    {"&quot;", "\""},  {"&apos;", "'"},
        {"&nbsp;", " "}, {"&ndash;", "–"}, {"&mdash;", "—"}, {"&hellip;", "…"}, {"&times;", "×"},
        {"&copy;", "©"}, {"&deg;", "°"},   {"&rarr;", "→"},  {"&larr;", "←"},   {"&bull;", "•"}};
    for (const auto& [name, character] : kKnown)
      if (entity == name) return std::string(character);
    if (entity.size() < 4 || entity[1] != '#') return std::string(entity);
    const bool hex = (entity[2] | 32) == 'x';
    uint32_t code = 0;
    const char* const end = entity.data() + entity.size() - 1;
    const auto [last, problem] = std::from_chars(entity.data() + (hex ? 3 : 2), end, code, hex ? 16 : 10);
    std::string character;
    if (problem != std::errc() || last != end || code < 0x20 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
      return std::string(entity);
    core::append_utf8(character, code);
    return character;
  }

  void begin_list(List list) {
    finish_text();
    lists_.push_back(list);
  }

  void begin_item(const MD_BLOCK_LI_DETAIL& item) {
    List& list = lists_.back();
    std::string mark = list.ordered ? fmt::format("{}.", list.next++) : "•";
    if (item.is_task) mark = item.task_mark == ' ' ? "☐" : "☑";
    margins_.push_back({false, std::move(mark)});
  }

  void finish_text() {
    if (!block_.runs.empty()) finish();
  }

  // Text in tight lists has no gap.
  void finish() {
    block_.margins = margins_;
    for (size_t i = 0; i < margins_.size(); ++i) margins_[i].mark.clear();
    block_.close = !lists_.empty() && lists_.back().tight && !blocks_.empty() && !blocks_.back().margins.empty() &&
                   block_.kind == Kind::paragraph;
    while (block_.code.ends_with('\n')) block_.code.pop_back();
    while (block_.lines.size() > 1 && block_.lines.back().begin > block_.code.size()) block_.lines.pop_back();
    spans_.clear();
    block_.hash = hash_of(block_);
    blocks_.push_back(std::exchange(block_, {}));
  }

  static size_t hash_of(const MarkdownBlock& block) {
    size_t hash = static_cast<size_t>(block.kind) * 8 + static_cast<size_t>(block.level);
    const auto add = [&](std::string_view text) { hash = hash * 1099511628211u + std::hash<std::string_view>()(text); };
    const auto add_runs = [&](const MarkdownRuns& runs) {
      for (const MarkdownRun& run : runs) {
        add(run.text);
        hash = hash * 31 + run.style * 2u + (run.display ? 1 : 0);
      }
    };
    for (const MarkdownBlock::Margin& margin : block.margins) add(margin.quote ? "\n" : margin.mark);
    add_runs(block.runs);
    add(block.code);
    add(block.language);
    for (const auto& row : block.rows)
      for (const MarkdownRuns& cell : row) {
        add_runs(cell);
        hash = hash * 31 + 1;
      }
    for (const Align align : block.aligns) hash = hash * 31 + static_cast<size_t>(align);
    return hash;
  }

  const std::string_view source_;
  const HiddenFormulas formulas_;
  std::vector<MarkdownBlock> blocks_;
  MarkdownBlock block_;
  std::vector<MarkdownBlock::Margin> margins_;
  std::vector<List> lists_;
  std::vector<Span> spans_;
  bool indented_ = false;
  size_t last_ = 0;
};

} // namespace

std::vector<MarkdownBlock> parse_markdown(std::string_view source) { return Parser(source).blocks(); }

} // namespace ridge::text
