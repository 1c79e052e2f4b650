#include "core/strings/base64.h"

#include <doctest/doctest.h>

#include <span>
#include <string_view>

using namespace ridge::core;

namespace {

std::string encoded(std::string_view bytes) { return to_base64(std::as_bytes(std::span(bytes))); }

} // namespace

TEST_CASE("base64 there and back, in all its forms") {
  CHECK(encoded("") == "");
  CHECK(encoded("f") == "Zg==");
  CHECK(encoded("fo") == "Zm8=");
  CHECK(encoded("foobar") == "Zm9vYmFy");
  CHECK(encoded("\xfb\xff") == "+/8=");
  for (const char* text : {"+/8=", "+/8", "-_8", "+/\r\n8=\n"}) CHECK(from_base64(text) == "\xfb\xff");
  CHECK(from_base64("") == "");
  for (const char* text : {"Zm9v!", "Zm 9v", "Z=g=", "\xff"}) CHECK_FALSE(from_base64(text));
}
