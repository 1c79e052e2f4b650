// Client messages, and numbers beyond int64 and double.
#include "text/chat/messages.h"

#include "core/json/parse.h"
#include "text/calls/call_values.h"
#include "text/jinja/jinja.h"
#include "text/json/kept_number.h"

#include <doctest/doctest.h>

using namespace ridge;
using Json = nlohmann::ordered_json;

TEST_CASE("numbers beyond 64 bits and beyond a double keep their digits") {
  const std::string digits(400, '7');
  for (const std::string& text :
       {std::string(R"({"a":[18446744073709551616,-9223372036854775809,9e99,1e400,-1E+999],"b":9e99})"),
        "[" + digits + "," + digits + ".5,[],{}]", std::string("123456789012345678901234567890"),
        std::string(R"(["9e99 1e400 \" 1e400",1e400])")}) {
    const Json json = core::parse_json(text, {.exact_numbers = true});
    std::string expected = text; // doubles are printed differently
    for (size_t at = expected.find(":9e99"); at != std::string::npos; at = expected.find(":9e99"))
      expected.replace(at, 5, ":9e+99");
    for (size_t at = expected.find(",9e99"); at != std::string::npos; at = expected.find(",9e99"))
      expected.replace(at, 5, ",9e+99");
    CHECK(text::json_text(json) == expected);
  }
  CHECK(text::json_text(core::parse_json(R"({"a":[1e400,{}],"b":{}})", {.exact_numbers = true}), 1) ==
        "{\n \"a\": [\n  1e400,\n  {}\n ],\n \"b\": {}\n}");
  CHECK(core::parse_json("[18446744073709551615]", {.exact_numbers = true})[0].is_number_unsigned());
  CHECK(text::with_doubles(core::parse_json("[18446744073709551616]", {.exact_numbers = true}))[0] ==
        18446744073709551616.0);
  for (const char* wrong : {"01e400", "1e400x", "[1e400", "-", "1e", "{\"a\":1e400,}"})
    CHECK(text::parse_json(wrong).is_discarded());
}

TEST_CASE("templates write the digits of numbers that they are given") {
  const auto written =
      text::jinja::Template::parse("{{ a }} {{ a|tojson }} {{ [a, b]|tojson }} {{ b is mapping }}", "t");
  const Json variables =
      core::parse_json(R"({"a": 123456789012345678901234567890, "b": 18446744073709551615})", {.exact_numbers = true});
  CHECK(written.render(variables, {}) == "123456789012345678901234567890 123456789012345678901234567890 "
                                         "[123456789012345678901234567890, 18446744073709551615] False");
}

TEST_CASE("messages of all kinds become one form") {
  const auto read = [](const char* messages) { return text::read_messages(Json::parse(messages)).dump(); };
  CHECK(read(R"([{"role": "developer", "content": [{"type": "text", "text": "a"}, "b", {"text": "c"}]}])") ==
        R"([{"role":"system","content":"abc"}])");
  CHECK(read(R"([{"role": "assistant", "refusal": "no", "audio": null}, {"role": "model"}])") ==
        R"([{"role":"assistant","content":"no","refusal":"no"},{"role":"assistant","content":""}])");
  CHECK(read(R"([{"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "r"}]},
                                                   {"type": "text", "text": "a"}]}])") ==
        R"([{"role":"assistant","content":"a","reasoning_content":"r"}])");
  CHECK(read(R"([{"role": "assistant", "function_call": {"name": "f", "arguments": ""}},
                 {"role": "function", "name": "f", "content": 3}])")
            .ends_with(R"("function":{"name":"f","arguments":{}}}]},{"role":"tool","content":"3","name":"f",)"
                       R"("tool_call_id":"call_0000000000000000"}])") == false);
  const Json custom = text::read_messages(Json::parse(R"([{"role": "assistant", "tool_calls": [{"id": "1", "type":
      "custom", "custom": {"name": "f", "input": "x"}}]}, {"role": "tool", "tool_call_id": "1", "content": [1, 2]}])"));
  CHECK(custom[0]["tool_calls"][0]["function"]["arguments"].dump() == R"({"input":"x"})");
  CHECK(custom[1]["content"] == "[1,2]");
  CHECK(custom[1]["name"] == "f");
}

TEST_CASE("arguments become an object where they are one, however they are written") {
  const auto read = [](const Json& given) { return text::read_arguments(given).dump(); };
  CHECK(read(nullptr) == "{}");
  CHECK(read(" ") == "{}");
  CHECK(read("null") == "{}");
  CHECK(read(R"({"a": 1})") == R"({"a":1})");
  CHECK(read(R"("{\"a\": 1}")") == R"({"a":1})");
  CHECK(read(R"("\"{}\"")") == "{}");
  for (const char* none : {"{", R"({"a": )", "[1]", "3", "text", R"("\"")"}) CHECK(text::read_arguments(none) == none);
  CHECK(text::read_arguments(Json::array({1})) == "[1]");
}

TEST_CASE("a message that means nothing is an error that names its place") {
  const auto problem = [](const char* messages, std::string_view source = {}) -> std::string {
    try {
      text::read_messages(Json::parse(messages), "messages", source);
    } catch (const text::MessageError& error) {
      CHECK(std::string(error.what()).starts_with(error.path + ": "));
      return error.path;
    }
    return "";
  };
  CHECK(problem("[]") == "messages");
  CHECK(problem("[3]") == "messages[0]");
  CHECK(problem(R"([{"content": "a"}])") == "messages[0].role");
  CHECK(problem(R"([{"role": "robot", "content": "a"}])") == "messages[0].role");
  CHECK(problem(R"([{"role": "robot", "content": "a"}])", "{% if m.role == 'robot' %}") == "");
  CHECK(problem(R"([{"role": "user", "content": {"a": 1}}])") == "messages[0].content");
  CHECK(problem(R"([{"role": "user", "content": ["a", {"type": "image_url", "image_url": {}}]}])") ==
        "messages[0].content[1].type");
  CHECK(problem(R"([{"role": "assistant", "tool_calls": {}}])") == "messages[0].tool_calls");
  CHECK(problem(R"([{"role": "assistant", "tool_calls": [3]}])") == "messages[0].tool_calls[0]");
  CHECK(problem(R"([{"role": "assistant", "tool_calls": [{}]}])") == "messages[0].tool_calls[0].function");
  CHECK(problem(R"([{"role": "assistant", "tool_calls": [{"function": {}}]}])") ==
        "messages[0].tool_calls[0].function.name");
}
