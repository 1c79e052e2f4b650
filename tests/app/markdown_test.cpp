// Markdown in a terminal; streamed output must equal the whole.
#include "app/terminal/markdown/markdown.h"
#include "app/terminal/markdown/markdown_stream.h"
#include "app/terminal/markdown/word_wrap.h"
#include "core/strings/utf8.h"
#include "support/seed.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace ridge;

namespace {

std::vector<std::string> plain(const std::vector<std::string>& lines) {
  std::vector<std::string> out;
  for (std::string line : lines) {
    for (size_t at; (at = line.find('\033')) != line.npos;) line.erase(at, line.find('m', at) + 1 - at);
    out.push_back(line);
  }
  return out;
}

std::vector<std::string> shown(const std::string& source, int columns = 60) {
  return plain(app::markdown_lines(source, columns));
}

using Lines = std::vector<std::string>;

// A minimal terminal: wraps and scrolls.
class Screen {
 public:
  Screen(int columns, int rows) : columns_(columns), rows_(rows), lines_(1) {}

  void write(std::string_view text) {
    while (!text.empty()) {
      if (text[0] == '\033') {
        const size_t end = text.find_first_of("AJm");
        REQUIRE(end != text.npos);
        order(text[end], text.substr(2, end - 2));
        text.remove_prefix(end + 1);
      } else if (text[0] == '\n') {
        down();
        column_ = 0;
        text.remove_prefix(1);
      } else if (text[0] == '\r') {
        column_ = 0;
        text.remove_prefix(1);
      } else {
        const std::string_view before = text;
        const int width = app::display_width(core::take_character(text));
        if (column_ + width > columns_) down(), column_ = 0;
        auto& line = lines_[row_];
        line.resize(std::max(line.size(), static_cast<size_t>(column_ + width)), " ");
        line[static_cast<size_t>(column_)] = std::string(before.substr(0, before.size() - text.size()));
        column_ += width;
      }
    }
  }

  // With scrolled lines, without trailing spaces.
  std::string text() const {
    std::string all;
    for (const std::string& line : lines()) all += line + "\n";
    return all;
  }
  Lines lines() const {
    Lines out;
    for (const auto& cells : lines_) {
      std::string line;
      for (const std::string& cell : cells) line += cell;
      line.erase(line.find_last_not_of(' ') + 1);
      out.push_back(line);
    }
    while (!out.empty() && out.back().empty()) out.pop_back();
    return out;
  }

 private:
  void order(char letter, std::string_view number) {
    if (letter == 'J') {
      lines_.resize(row_ + 1);
      lines_[row_].resize(std::min(lines_[row_].size(), static_cast<size_t>(column_)));
    }
    if (letter != 'A') return;
    const size_t up = static_cast<size_t>(std::stoi(std::string(number)));
    const size_t top = lines_.size() > rows_ ? lines_.size() - rows_ : 0;
    CHECK(row_ >= top + up);
    row_ -= std::min(row_, up);
  }
  void down() {
    ++row_;
    if (row_ == lines_.size()) lines_.emplace_back();
  }

  const int columns_;
  const size_t rows_;
  std::vector<std::vector<std::string>> lines_;
  size_t row_ = 0;
  int column_ = 0;
};

const std::string kDocument = R"(# A title

A paragraph with *emphasis*, **strong words**, `code`, ~~nothing~~ and a [link](https://example.org/a_b), which is
long enough to be wrapped several times over.

- one
- two, with a text that is so long that it has to be wrapped within its item
  1. first
  2. second
- [ ] to do
- [x] done

| name | value |
| :--- | ---: |
| alpha | 1 |
| a much longer name than the others have | 12345 |

```c
int main(void) { return 0; } /* a line of code that is longer than the terminal is wide */

    indented
```

> A quote
> of two lines.

1. loose

2. list

---
The end: 2 * 3 * 4 &lt; 25.
)";

} // namespace

TEST_CASE("emphasis, headings, links and entities are shown without their marks") {
  CHECK(shown("*a* **b** ***c*** _d_ `e` ~~f~~") == Lines{"a b c d e f"});
  CHECK(app::markdown_lines("**b**", 60) == Lines{"\033[1mb\033[0m"});
  CHECK(app::markdown_lines("*i* x", 60) == Lines{"\033[3mi\033[0m x"});
  CHECK(shown("## Title\ntext") == Lines{"Title", "", "text"});
  CHECK(shown("[text](https://a.b/c)") == Lines{"text (https://a.b/c)"});
  CHECK(shown("https://a.b/c") == Lines{"https://a.b/c"});
  CHECK(shown("a &lt; b &amp; c") == Lines{"a < b & c"});
  CHECK(shown("2 * 3 * 4, snake_case_name, $5") == Lines{"2 * 3 * 4, snake_case_name, $5"});
  CHECK(shown("<b>raw</b>") == Lines{"<b>raw</b>"});
  CHECK(shown("one\ntwo  \nthree") == Lines{"one two", "three"});
  CHECK(shown("") == Lines{});
}

TEST_CASE("formulas are shown as Unicode where it can say them, else as they were written") {
  CHECK(shown("so $x_1^2 + \\frac{\\alpha}{2}$, and \\(a_i\\)") == Lines{"so x₁² + α/2, and aᵢ"});
  CHECK(shown("**$x_1$** and `$x_1$`") == Lines{"x₁ and $x_1$"});
  CHECK(app::markdown_lines("**$x_1$**", 60) == Lines{"\033[1mx₁\033[0m"});
  CHECK(shown("it is\n\\[ E = mc^2 \\]\nas is known") == Lines{"it is", "E = mc²", "as is known"});
  CHECK(shown("$$a_1$$") == Lines{"a₁"});
  CHECK(shown("$\\unknowncommand{x}$ stays") == Lines{"$\\unknowncommand{x}$ stays"});
  CHECK(shown("$5 and $10") == Lines{"$5 and $10"});
  CHECK(shown("```\n$x_1$\n```") == Lines{"$x_1$"});
  CHECK(shown("| $x_1$ | b |\n|---|---|\n| 1 | $$y^2$$ |") == Lines{"x₁ │ b", "───┼───", "1  │ y²"});
  CHECK(shown("[$x_1$](https://a.b/c)") == Lines{"x₁ (https://a.b/c)"});
}

TEST_CASE("links that md4c leaves without having entered them end no other one") {
  for (const char* text : {"https://a.b\n\n![| - word]([***)](https://c.d)", "[see https://a.b here](https://c.d)",
                           "[*https://a.b and https://c.d*](https://e.f) g",
                           "| [https://a.b x](https://c.d) |\n| --- |\n| [https://a.b https://c.d](https://e.f) |"}) {
    CAPTURE(text);
    const Lines lines = shown(text);
    REQUIRE(!lines.empty());
    CHECK(lines[0].find("https://a.b") != std::string::npos);
  }
}

TEST_CASE("random marks are shown, whatever they open and close") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  constexpr const char* kPieces[] = {
      "[",  "](https://c.d)", "https://a.b", "*",           "**", "_",  "~~",  "`",    "$", "$$", "![",
      "\n", "\n\n",           "| ",          "\n| --- |\n", "> ", "- ", "1. ", "word", " "};
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (uint64_t pieces = random() % 30; pieces > 0; --pieces) text += kPieces[random() % std::size(kPieces)];
    CAPTURE(text);
    for (const std::string& line : shown(text)) CHECK(line.size() <= 4 * text.size() + 200);
  }
}

TEST_CASE("lists, quotes, rules and code are lines of their own") {
  CHECK(shown("- a\n- b\n  - c\n- d") == Lines{"• a", "• b", "  • c", "• d"});
  CHECK(shown("3. a\n4. b") == Lines{"3. a", "4. b"});
  CHECK(shown("- [ ] a\n- [x] b") == Lines{"☐ a", "☑ b"});
  CHECK(shown("1. a\n\n2. b") == Lines{"1. a", "", "2. b"});
  CHECK(shown("- a\n\n  more of a\n- b") == Lines{"• a", "", "  more of a", "", "• b"});
  CHECK(shown("> q\n> r") == Lines{"│ q r"});
  CHECK(shown("a\n\n---\n\nb") == Lines{"a", "", "────────", "", "b"});
  CHECK(shown("```\nx\n\n  y\n```\nz") == Lines{"x", "", "  y", "", "z"});
  CHECK(shown("- a\n  ```\n  x\n  ```\n- b") == Lines{"• a", "", "  x", "• b"});
  CHECK(shown("- a b c d e f g h", 10) == Lines{"• a b c d", "  e f g h"});
  CHECK(shown("text:\n- a") == Lines{"text:", "", "• a"});
}

TEST_CASE("tables have columns, and fit the terminal") {
  CHECK(shown("| a | b |\n|---|--:|\n| x | 10 |\n| yy | 2 |") == Lines{"a  │  b", "───┼───", "x  │ 10", "yy │  2"});
  for (int columns = 20; columns < 80; ++columns)
    for (const std::string& line : shown(kDocument, columns))
      if (line.find("int main") == line.npos && line.find("https") == line.npos)
        CHECK_MESSAGE(app::shown_width(line) <= columns, columns, ": ", line);
}

TEST_CASE("a document that comes in pieces looks as the whole does, whatever the pieces and the terminal are") {
  for (const int columns : {24, 37, 60, 120})
    for (const size_t piece : {1, 3, 7, 50}) {
      app::MarkdownStream stream;
      Screen screen(columns, 200);
      for (size_t at = 0; at < kDocument.size(); at += piece)
        screen.write(stream.add(kDocument.substr(at, piece), columns, 200));
      screen.write(stream.flush(columns));
      Screen whole(columns, 200);
      for (const std::string& line : app::markdown_lines(kDocument, columns)) whole.write(line + "\n");
      CAPTURE(columns);
      CAPTURE(piece);
      CHECK(screen.text() == whole.text());
    }
}

TEST_CASE("what has left the screen is not drawn again") {
  std::string list;
  for (int i = 0; i < 40; ++i) list += "- item " + std::to_string(i) + "\n";
  list += "\n  loose now\n"; // makes the list loose
  app::MarkdownStream stream;
  Screen screen(40, 10);
  for (const char c : list) screen.write(stream.add(std::string(1, c), 40, 10));
  CHECK(screen.lines().back() == "  loose now");
}

TEST_CASE("blocks that are whole are not parsed again") {
  CHECK(app::unfinished_block("one\n\ntwo") == 5);
  CHECK(app::unfinished_block("one\n\n") == 0);
  CHECK(app::unfinished_block("- a\n\n- b") == 0);
  CHECK(app::unfinished_block("- a\n\n1") == 0);   // may become "1. b"
  CHECK(app::unfinished_block("- a\n\n1 b") == 5); // a paragraph
  CHECK(app::unfinished_block("- a\n\n**b**") == 5);
  CHECK(app::unfinished_block("- a\n\n  b") == 0);
  CHECK(app::unfinished_block("```\n\nx\n\ny") == 0);
  CHECK(app::unfinished_block("```\n\nx\n```\n\ny") == 12);
}

TEST_CASE("very long texts are shown as they are written, and in a time that grows with their length") {
  app::MarkdownStream stream;
  std::string out;
  for (int i = 0; i < 30; ++i) out += stream.add(std::string(10000, '*') + "\n", 80, 24);
  out += stream.flush(80);
  CHECK(out.size() > 200000);
}
