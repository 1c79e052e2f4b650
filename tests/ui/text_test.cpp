// Wrapping, editing, saved layout.
#include "core/strings/utf8.h"
#include "support/numerics.h"
#include "support/temporary_folder.h"
#include "ui/panels/layout.h"
#include "ui/widgets/wrapped_text.h"

#include <doctest/doctest.h>

#include <fstream>
#include <random>

using namespace ridge::ui;
using ridge::tests::TemporaryFolder;

namespace {

// Ten characters per line.
std::vector<std::string> lines(const WrappedText& text) {
  std::vector<std::string> result;
  for (const auto& [begin, end] : text.rows()) {
    std::string line;
    for (int i = begin; i < end; ++i) ridge::core::append_utf8(line, text.characters()[i]);
    result.push_back(line);
  }
  return result;
}

struct Field : WrappedText {
  explicit Field(std::string_view text) {
    set_layout(10, 1, [](char32_t) { return 1.0f; });
    set(text);
  }
};

using Lines = std::vector<std::string>;

} // namespace

TEST_CASE("lines break after words, at line breaks, and inside words that are longer than a line") {
  CHECK(lines(Field("")) == Lines{""});
  CHECK(lines(Field("one two")) == Lines{"one two"});
  CHECK(lines(Field("one two three four")) == Lines{"one two ", "three four"});
  CHECK(lines(Field("one two th")) == Lines{"one two th"});
  CHECK(lines(Field("a\n\nb\n")) == Lines{"a\n", "\n", "b\n", ""});
  CHECK(lines(Field("0123456789abc de")) == Lines{"0123456789", "abc de"});
  CHECK(lines(Field("1234567890     x")) == Lines{"1234567890     ", "x"}); // spaces may stick out
}

TEST_CASE("what is typed, removed and pasted appears where the cursor is, in any script") {
  Field field("");
  for (const char32_t c : U"héllo 你😀") {
    if (c != 0) field.type(c);
  }
  CHECK(field.utf8() == "héllo 你😀");
  field.press(EditKey::backspace, false);
  field.press(EditKey::line_start, false);
  field.press(EditKey::remove, false);
  field.type('H');
  CHECK(field.utf8() == "Héllo 你");
  field.press(EditKey::word_right, true);
  CHECK(field.selected() == "éllo ");
  field.paste("i\r\n");
  CHECK(field.utf8() == "Hi\n你");
  field.press(EditKey::undo, false);
  CHECK(field.utf8().find("你") != std::string::npos);
  CHECK(field.utf8() != "Hi\n你");
  field.select_all();
  field.cut();
  CHECK(field.utf8() == "");
}

TEST_CASE("the cursor moves and selects by wrapped lines, with the mouse too") {
  Field field("one two three four five");
  field.click(2.4f, 1.5f);
  CHECK(field.cursor() == 10); // "th|ree"
  field.press(EditKey::up, false);
  CHECK(field.cursor() == 2);
  field.press(EditKey::down, true);
  CHECK(field.selected() == "e two th");
  field.click(5.4f, 0.5f);
  field.select_word();
  CHECK(field.selected() == "two");
  field.click(0, 0);
  field.drag(3, 0.5f);
  CHECK(field.selected() == "one");
}

TEST_CASE("editing at random never loses its place and undoes what it did") {
  const uint64_t seed = ridge::tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Field field("");
  for (int step = 0; step < 20000; ++step) {
    const unsigned what = random() % 20;
    if (what < 14)
      field.press(static_cast<EditKey>(what), random() % 3 == 0);
    else if (what == 14)
      field.click(static_cast<float>(random() % 12), static_cast<float>(random() % 6));
    else if (what == 15)
      field.drag(static_cast<float>(random() % 12), static_cast<float>(random() % 6));
    else
      field.type(U"ab \n\u4f60\U0001f600"[random() % 6]);
    const auto size = static_cast<int>(field.characters().size());
    const auto [begin, end] = field.selection();
    const auto rows = field.rows();
    if (!(field.cursor() >= 0 && field.cursor() <= size && begin >= 0 && begin <= end && end <= size &&
          rows.front().begin == 0 && rows.back().end == size))
      FAIL("step " << step);
    for (size_t i = 1; i < rows.size(); ++i)
      if (rows[i].begin != rows[i - 1].end) FAIL("step " << step);
  }
}

TEST_CASE("the layout comes back as it was saved, and lines that make no sense leave what is usual") {
  const TemporaryFolder folder;
  const std::string path = folder / "new/window.ini";
  CHECK(load_layout(path) == Layout{});
  Layout layout{1024, 700, "roofline", true, 130, false, true};
  save_layout(path, layout);
  CHECK(load_layout(path) == layout);
  std::ofstream(path) << "width=-5\nheight=70000000000\nlight=maybe\n\n=\npanel\nsettings=no\nzoom=900\nunknown=3\n";
  Layout expected;
  expected.settings = false;
  CHECK(load_layout(path) == expected);
  std::ofstream(path) << std::string(100000, '\xff');
  CHECK(load_layout(path) == Layout{});
}
