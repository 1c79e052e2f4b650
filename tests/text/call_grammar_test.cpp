// Grammars of calls: whatever a random model writes under them is a call that fits its schema.
#include "core/error.h"
#include "core/random.h"
#include "text/calls/call_grammar.h"
#include "text/calls/call_parser.h"
#include "text/calls/call_writer.h"
#include "text/grammar/grammar_matcher.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ridge;
using namespace ridge::text;
using Json = nlohmann::ordered_json;

namespace {

// Single characters, and a few longer pieces that cross the marks' borders.
const TokenTable& vocabulary() {
  static const TokenTable table = [] {
    std::vector<std::string> pieces = {""};
    for (char c = ' '; c <= '~'; ++c) pieces.push_back(std::string(1, c));
    for (const char* piece :
         {"\n", "ü", "<tool", "_call>", "</", "parameter", ">\n", "\": ", "{\"", "\"}", "true", "], "})
      pieces.push_back(piece);
    for (const char* mark : {"｜", "▁", "\xEF", "\xBD", "\x9C"}) pieces.push_back(mark);
    return TokenTable(pieces, std::vector<int32_t>{0});
  }();
  return table;
}

// Whether a value fits a schema of those below.
bool fits(const Json& value, const Json& schema) {
  if (schema.contains("anyOf"))
    return std::ranges::any_of(schema["anyOf"], [&](const Json& part) { return fits(value, part); });
  if (schema.contains("enum")) return std::ranges::find(schema["enum"], value) != schema["enum"].end();
  const std::string type = schema["type"];
  if (type == "object") {
    if (!value.is_object()) return false;
    for (const Json& name : schema.value("required", Json::array()))
      if (!value.contains(name.get<std::string>())) return false;
    for (const auto& [key, one] : value.items())
      if (!schema["properties"].contains(key) || !fits(one, schema["properties"][key])) return false;
    return true;
  }
  if (type == "array") {
    return value.is_array() && value.size() <= schema.value("maxItems", size_t{1000}) &&
           std::ranges::all_of(value, [&](const Json& one) { return fits(one, schema["items"]); });
  }
  if (type == "string") {
    if (!value.is_string()) return false;
    size_t characters = 0;
    for (const char c : value.get<std::string>()) characters += (c & 0xC0) != 0x80;
    return characters <= schema.value("maxLength", size_t{1000}) && characters >= schema.value("minLength", size_t{0});
  }
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  return value.is_null();
}

struct Random {
  uint64_t seed, count = 0;
  size_t below(size_t n) { return core::mix_bits(core::mix_bits(seed) + ++count) % n; }
};

Json random_schema(Random& random, int depth) {
  switch (random.below(depth > 2 ? 6 : 8)) {
  case 0: return {{"type", "integer"}};
  case 1: return {{"type", "boolean"}};
  case 2: return {{"enum", {"red", "green <b>", "blue"}}};
  case 3: return {{"type", "string"}, {"minLength", random.below(3)}, {"maxLength", 3 + random.below(5)}};
  case 4: return {{"anyOf", {{{"type", "string"}, {"maxLength", 6}}, {{"type", "null"}}}}};
  case 5: return {{"type", "number"}};
  case 6: return {{"type", "array"}, {"items", random_schema(random, depth + 1)}, {"maxItems", 3}};
  default: break;
  }
  Json properties = Json::object(), required = Json::array();
  for (size_t i = random.below(4); i-- > 0;) {
    const std::string key = "k" + std::to_string(i);
    properties[key] = random_schema(random, depth + 1);
    if (random.below(2)) required.push_back(key);
  }
  return {{"type", "object"}, {"properties", properties}, {"required", required}};
}

std::vector<Tool> random_tools(Random& random) {
  std::vector<Tool> tools;
  for (const char* name : {"get_weather", "add", "get"}) {
    Json schema;
    do schema = random_schema(random, 0);
    while (!schema.contains("type") || schema["type"] != "object");
    tools.push_back({name, schema});
  }
  return tools;
}

// A text that a model of random weights writes under the grammar.
std::optional<std::string> random_text(const Grammar& grammar, Random& random) {
  GrammarMatcher matcher(grammar, vocabulary());
  std::string text;
  std::vector<float> logits(static_cast<size_t>(vocabulary().size()));
  for (int i = 0; i < 4000; ++i) {
    std::ranges::fill(logits, 0.0f);
    matcher.apply(logits);
    std::vector<int32_t> allowed;
    for (size_t token = 0; token < logits.size(); ++token)
      if (logits[token] == 0.0f) allowed.push_back(static_cast<int32_t>(token));
    REQUIRE(!allowed.empty());
    if (allowed[0] == 0 && random.below(2)) return text;
    const int32_t token = allowed[random.below(allowed.size())];
    if (token == 0) return text;
    matcher.accept(token);
    text += vocabulary().piece(token);
  }
  return std::nullopt;
}

} // namespace

TEST_CASE("every call that is written under a grammar is read, and fits its tool's schema") {
  int calls_read = 0;
  for (const CallSyntax& syntax : call_syntaxes()) {
    CAPTURE(syntax.name);
    if (syntax.messages) continue; // below
    for (uint64_t seed = 0; seed < 12; ++seed) {
      CAPTURE(seed);
      Random random{seed + std::hash<std::string_view>()(syntax.name)};
      const std::vector<Tool> tools = random_tools(random);
      const std::string gbnf = gbnf_from_tools(syntax, tools, {.parallel = seed % 2 == 0}, nullptr);
      const auto text = random_text(Grammar::parse(gbnf), random);
      if (!text) continue;
      CAPTURE(*text);
      CallParser parser(syntax, tools, 1);
      std::string content;
      const std::vector<ToolCall> calls = read_calls(parser, *text, &content);
      CHECK(content == "");
      REQUIRE(!calls.empty());
      if (seed % 2) CHECK(calls.size() == 1);
      for (const ToolCall& call : calls) {
        CAPTURE(call.arguments);
        const Json arguments = Json::parse(call.arguments, nullptr, false);
        REQUIRE(arguments.is_object());
        CHECK(fits(arguments, std::ranges::find(tools, call.name, &Tool::name)->parameters));
        ++calls_read;
      }
    }
  }
  CHECK(calls_read > 300);
}

TEST_CASE("what the writer writes is in the grammar") {
  const Json schema =
      Json::parse(R"({"type": "object", "properties": {"s": {"type": "string"}, "n": {"type": "integer"},
      "list": {"type": "array", "items": {"type": "string"}}, "b": {"type": "boolean"}}, "required": ["s"]})");
  const std::vector<Tool> tools = {{"f", schema}};
  for (const CallSyntax& syntax : call_syntaxes()) {
    CAPTURE(syntax.name);
    const Grammar grammar = Grammar::parse(gbnf_from_tools(syntax, tools, {}, nullptr));
    for (const char* arguments : {R"({"s": "a < b", "n": -3, "list": ["x", "y"], "b": true})", R"({"s": ""})"}) {
      std::vector<ToolCall> calls = {{"abcdefgh1", "f", arguments}, {"abcdefgh2", "f", arguments}};
      if (syntax.messages) calls.pop_back();
      const std::string text = write_calls(syntax, calls);
      CAPTURE(text);
      GrammarMatcher matcher(grammar, vocabulary());
      size_t same = 0;
      while (same < text.size() && matcher.allows_text(text.substr(same, 1)))
        matcher.accept_text(text.substr(same++, 1));
      CHECK(text.substr(same) == "");
      CHECK(matcher.can_end());
    }
    GrammarMatcher matcher(grammar, vocabulary());
    CHECK(!matcher.can_end());
    CHECK(!matcher.allows_text("Hello"));
  }
}

TEST_CASE("all forms of gpt-oss's headers are in its grammar, after reasoning where that is allowed") {
  const std::vector<Tool> tools = {{"f", Json::parse(R"({"type": "object"})")}};
  const CallSyntax& harmony = *std::ranges::find(call_syntaxes(), "harmony", &CallSyntax::name);
  const CallGrammarOptions reasoning = {true, "<|channel|>analysis<|message|>", "<|end|>"};
  const Grammar grammar = Grammar::parse(gbnf_from_tools(harmony, tools, reasoning, nullptr));
  for (const char* text :
       {"<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}",
        "<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{}",
        " to=functions.f<|channel|>analysis<|message|>{}",
        "<|channel|>analysis<|message|>Hm < <|en so<|end|><|start|>assistant to=functions.f<|message|>{}"}) {
    CAPTURE(text);
    GrammarMatcher matcher(grammar, vocabulary());
    CHECK(matcher.allows_text(text));
    matcher.accept_text(text);
    CHECK(matcher.can_end());
    CHECK(!GrammarMatcher(grammar, vocabulary())
               .allows_text(std::string(text).replace(std::string(text).find(".f"), 2, ".g")));
  }
}

TEST_CASE("parameters that cannot be written are refused with the tool's name") {
  const auto refusal = [](const char* syntax, const char* schema) {
    const std::vector<Tool> tools = {{"f", Json::parse(schema)}};
    std::string message;
    try {
      gbnf_from_tools(*std::ranges::find(call_syntaxes(), syntax, &CallSyntax::name), tools, {}, nullptr);
    } catch (const Error& error) {
      message = error.what();
    }
    return message;
  };
  CHECK(refusal("hermes", R"({"type": "object", "not": {}})").starts_with("the parameters of tool f: "));
  CHECK(refusal("qwen3-coder", R"({"properties": {"a>b": {}}})") ==
        "the parameters of tool f: this model's calls have no way to write the name 'a>b'");
  CHECK(refusal("glm-4", R"({"properties": {}, "required": ["x"]})") ==
        "the parameters of tool f: `x` is required, but is no property");
}
