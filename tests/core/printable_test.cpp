#include "core/strings/printable.h"

#include <doctest/doctest.h>

using ridge::core::printable;

TEST_CASE("text in any language is shown as it is") {
  for (const char* text : {"", "blk.0.attn_q.weight", "größe", "日本語", "emoji 🙂", "tab-less"})
    CHECK(printable(text) == text);
}

TEST_CASE("control characters, broken UTF-8 and invisible characters are escaped") {
  CHECK(printable("a\nb\tc\x1b[31m") == "a\\x0ab\\x09c\\x1b[31m");
  CHECK(printable(std::string("\0x", 2)) == "\\x00x");
  CHECK(printable("\x7f") == "\\x7f");
  CHECK(printable("back\\slash") == "back\\\\slash");
  CHECK(printable("\xff\xc3") == "\\xff\\xc3");
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");          // C1 control sequence introducer
  CHECK(printable("\xe2\x80\xae") == "\\xe2\\x80\\xae"); // right-to-left override
  CHECK(printable("\xe2\x80\xa8") == "\\xe2\\x80\\xa8"); // line separator
}

TEST_CASE("long text is cut with an ellipsis, between characters") {
  CHECK(printable(std::string(100, 'x'), 10) == std::string(10, 'x') + "…");
  CHECK(printable("ééé", 3) == "éé…");
}
