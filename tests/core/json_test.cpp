// Parsing and limits of external JSON.
#include "core/json/parse.h"

#include "core/error.h"

#include <doctest/doctest.h>

using namespace ridge;
using core::parse_json;
using Sorted = nlohmann::json;

namespace {

std::string repeated(std::string_view text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

template <typename Json = nlohmann::ordered_json>
std::string problem(const std::string& text, const core::JsonLimits& limits = {}) {
  CHECK(!core::find_json<Json>(text, limits));
  try {
    parse_json<Json>(text, "FILE", limits);
  } catch (const core::JsonError& error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST_CASE("what any parser of JSON reads is read, in either order of members") {
  for (const std::string text : {R"({})", R"([])", R"(" x")", R"(null)", R"(-0.5e-3)",
                                 R"({"b":[1,-2,2.5,true,null,"t\u20ac"],"a":{"x":{}},"b":7})",
                                 R"([[],[{}],18446744073709551615,-9223372036854775808,1e300])"}) {
    CAPTURE(text);
    CHECK(parse_json(text) == nlohmann::ordered_json::parse(text));
    CHECK(parse_json(text).dump() == nlohmann::ordered_json::parse(text).dump());
    CHECK(parse_json<Sorted>(text) == Sorted::parse(text));
  }
}

TEST_CASE("what is no JSON, or too much of it, is refused in one line") {
  CHECK(problem("{\"a\": ") == "FILE: is not valid JSON: error at byte 7");
  CHECK(problem("") == "FILE: is not valid JSON: error at byte 1");
  CHECK(problem("[1] x") == "FILE: is not valid JSON: error at byte 5");
  CHECK(problem("\"\xff\"").starts_with("FILE: is not valid JSON"));
  CHECK(problem("1e999") == "FILE: contains a number that is too large");
  for (const char* open : {"[", "{\"a\":", "[{\"a\":"}) {
    CHECK(problem(repeated(open, 200'000)) == "FILE: nests deeper than 64 levels");
    CHECK(problem<Sorted>(repeated(open, 200'000)) == "FILE: nests deeper than 64 levels");
  }
  CHECK(problem("[[[]]]", {.depth = 2}) == "FILE: nests deeper than 2 levels");
  CHECK(problem("[[],[],[]]", {.containers = 3}) == "FILE: has more than 3 objects and arrays");
  CHECK(problem(R"({"a":1,"b":2})", {.members = 1}) == "FILE: has an object with more than 1 members");
  CHECK(problem("[1, 2]", {.bytes = 5}) == "FILE: has 6 bytes, expected at most 5");
}

TEST_CASE("a text may end anywhere, with nothing behind it") { // AddressSanitizer detects reads past the end
  const std::string whole = R"({"a":[-1.5e+3,-0.25E-1,1E9,-12,"x\\\"y"],"b":-7})";
  for (size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    const std::vector<char> text(whole.begin(), whole.begin() + static_cast<long>(size));
    CHECK(!core::find_json(std::string_view(text.data(), size), {.exact_numbers = true}));
  }
  CHECK(core::find_json(whole, {.exact_numbers = true}));
}

TEST_CASE("integers of any length can be kept by their digits") {
  const auto list =
      parse_json("[1, 123456789012345678901234567890, -98765432109876543210, 2.5]", {.exact_numbers = true});
  const auto digits = [](const auto& value) {
    return std::string(value.get_binary().begin(), value.get_binary().end());
  };
  CHECK(!list[0].is_binary());
  CHECK(digits(list[1]) == "123456789012345678901234567890");
  CHECK(digits(list[2]) == "-98765432109876543210");
  CHECK(!list[3].is_binary());
  CHECK(parse_json("123456789012345678901234567890").is_number_float());
}
