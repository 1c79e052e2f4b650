#include "core/printable.h"

#include <doctest/doctest.h>

using ridge::core::is_utf8;
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

TEST_CASE("only well-formed UTF-8 is UTF-8") {
  for (const char* good :
       {"", "ascii", "\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    CHECK(is_utf8(good));
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xc2", "\xe0\x80\x80", "\xe2\x82", "\xed\xa0\x80",
                          "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "ok\xff"})
    CHECK_FALSE(is_utf8(bad));
}
