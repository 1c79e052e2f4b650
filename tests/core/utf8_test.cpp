#include "core/strings/utf8.h"

#include <doctest/doctest.h>

using namespace ridge::core;

TEST_CASE("UTF-8: well-formed, broken and broken-off characters are distinguished") {
  const auto is = [&](std::string_view text, Utf8Status status, int bytes) {
    CAPTURE(text);
    CHECK(utf8_head(text).status == status);
    CHECK(utf8_head(text).bytes == bytes);
  };
  is("a", Utf8Status::valid, 1);
  is("\u00e9x", Utf8Status::valid, 2);
  is("\u65e5", Utf8Status::valid, 3);
  is("\U0010FFFF", Utf8Status::valid, 4);
  is("\xF0\x9F\x98", Utf8Status::incomplete, 3);
  is("\xE6\x97x", Utf8Status::invalid, 2);
  is("\x80", Utf8Status::invalid, 1);
  is("\xC0\x80", Utf8Status::invalid, 1);     // overlong
  is("\xE0\x80\x80", Utf8Status::invalid, 1); // overlong
  is("\xED\xA0\x80", Utf8Status::invalid, 1); // surrogate
  is("\xF4\x90\x80\x80", Utf8Status::invalid, 1);
  is("\xFF", Utf8Status::invalid, 1);
  CHECK(utf8_valid_prefix("0123456789\u00e9\xC3") == 12);
  for (char32_t code_point = 0; code_point < 0x110000; code_point += 7) {
    if (code_point >= 0xD800 && code_point < 0xE000) continue;
    std::string character;
    append_utf8(character, code_point);
    REQUIRE(utf8_head(character).status == Utf8Status::valid);
    REQUIRE(utf8_head(character).bytes == character.size());
    REQUIRE(utf8_code_point(character) == code_point);
  }
}

TEST_CASE("only well-formed UTF-8 is UTF-8") {
  for (const char* good :
       {"", "ascii", "\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    CHECK(is_utf8(good));
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xc2", "\xe0\x80\x80", "\xe2\x82", "\xed\xa0\x80",
                          "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "ok\xff"})
    CHECK_FALSE(is_utf8(bad));
}

TEST_CASE("UTF-8 is decoded and encoded, and each invalid part becomes one replacement") {
  for (const char32_t c : {U'a', U'é', U'你', U'😀', char32_t{0x10ffff}}) {
    std::string text;
    append_utf8(text, c);
    std::string_view rest = text;
    CHECK(take_character(rest) == c);
    CHECK(rest.empty());
  }
  for (const std::string_view bad :
       {"\xff", "\xc0", "\xe4\xbd", "\xf0\x9f\x98", "\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    const std::string text = std::string(bad) + "x";
    std::string_view rest = text;
    CHECK(take_character(rest) == 0xfffd);
    while (rest != "x") REQUIRE(take_character(rest) == 0xfffd);
  }
}

TEST_CASE("the length of a text is that in characters") {
  CHECK(utf8_length("") == 0);
  CHECK(utf8_length("±5 µs 日本 🙂") == 10);
}
