// Word wrapping.
#include "app/terminal/markdown/word_wrap.h"

#include "app/support.h"
#include "core/strings/utf8.h"

#include <sstream>

using namespace ridge;
using namespace ridge::tests;

namespace {

// Pieces of `step` characters.
std::string wrapped(std::string_view text, int columns, int step = 1) {
  app::WordWrap wrap;
  std::string out;
  while (!text.empty()) {
    std::string_view rest = text;
    for (int i = 0; i < step && !rest.empty(); ++i) core::take_character(rest);
    out += wrap.add(text.substr(0, text.size() - rest.size()), columns);
    text = rest;
  }
  return out + wrap.flush(columns);
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

} // namespace

TEST_CASE("lines break between words, however the text is cut into pieces") {
  const std::string text = "The quick brown fox jumps over the lazy dog";
  for (const int step : {1, 2, 3, 7, 100}) {
    CHECK(wrapped(text, 10, step) == "The quick\nbrown fox\njumps over\nthe lazy\ndog");
    CHECK(wrapped(text, 9, step) == "The quick\nbrown fox\njumps\nover the\nlazy dog");
  }
  CHECK(wrapped(text, 0) == text);
  CHECK(wrapped(text, 200) == text);
}

TEST_CASE("the text's own lines, indentation and blank lines stay") {
  CHECK(wrapped("one\n\n  - two three\nfour  five", 12) == "one\n\n  - two\nthree\nfour  five");
  CHECK(wrapped("ends here  \nnext", 12) == "ends here\nnext");
  CHECK(wrapped("exactly ten\nnext", 11) == "exactly ten\nnext");
  CHECK(wrapped("a\tb", 20) == "a       b");
}

TEST_CASE("a word longer than the line begins on its own line and stays in one piece") {
  const std::string address = "https://example.org/a/very/long/path/without/spaces";
  CHECK(wrapped("see " + address + " there", 20) == "see\n" + address + " there");
  CHECK(wrapped(address, 20) == address);
}

TEST_CASE("code between fences is left to the terminal") {
  const std::string code = "```cpp\nint main() { return a_long_name + another_long_name; }\n```\n";
  CHECK(wrapped(code + "and some words after it", 20) == code + "and some words after\nit");
  CHECK(wrapped("~~~\nlong line of code here\n~~~\n", 8) == "~~~\nlong line of code here\n~~~\n");
  CHECK(wrapped("```not a fence``` because it ends", 20) == "```not a fence```\nbecause it ends");
}

TEST_CASE("columns are counted as a terminal shows characters") {
  CHECK(wrapped("naïve café naïve", 10) == "naïve café\nnaïve");
  CHECK(wrapped("nai\u0308ve cafe\u0301 x", 10) == "nai\u0308ve cafe\u0301\nx"); // combining marks take no column
  CHECK(wrapped("一二三四五六七", 10) == "一二三四五\n六七");
  CHECK(wrapped("一二三四五。六七", 10) == "一二三四\n五。六七"); // no line begins with a full stop
  CHECK(wrapped("ab一二三", 5) == "ab一\n二三");
  CHECK(wrapped("👩\u200d👩\u200d👧 ok 👍🏽 ok", 8) ==
        "👩\u200d👩\u200d👧 ok 👍🏽\nok"); // one emoji each
}

TEST_CASE("a terminal that becomes narrower or wider is followed") {
  app::WordWrap wrap;
  std::string out = wrap.add("one two three four ", 40);
  out += wrap.add("five six seven eight nine ten ", 10);
  out += wrap.flush(10);
  CHECK(out == "one two three four\nfive six\nseven\neight nine\nten");
}

TEST_CASE("an answer on a terminal is wrapped at words, and through a pipe it is the model's own bytes") {
  const std::string command = RIDGE_BINARY " run --device cpu -p 'What is Q4_K_M?' --temp 0 -n 120 2>/dev/null";
  const Result piped = run({"/bin/sh", "-c", command});
  REQUIRE(piped.status == 0);
  constexpr int kColumns = 32;
  Terminal terminal({"/bin/sh", "-c", command}, {{"TERM", "xterm"}, {"LC_ALL", "C.UTF-8"}}, kColumns);
  REQUIRE(terminal.exit_status() == 0);
  std::string shown = terminal.seen();
  std::erase(shown, '\r');
  REQUIRE(words_of(piped.out).size() > 20);
  CHECK(words_of(shown) == words_of(piped.out));
  CHECK(piped.out.find('\n') > kColumns); // the model's own lines are longer
  std::istringstream lines(shown);
  for (std::string line; std::getline(lines, line);) CHECK(core::utf8_length(line) <= kColumns);
}
