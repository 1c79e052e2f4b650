// Random outputs under call grammars must be valid calls.
#include "core/error.h"
#include "text/calls/call_grammar.h"
#include "text/calls/call_parser.h"
#include "text/calls/call_writer.h"
#include "text/grammar/grammar_matcher.h"
#include "text/schema/schema_validator.h"

#include "support/json_validator.h"
#include "support/random_tools.h"
#include "support/reference.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ridge;
using namespace ridge::text;
using Json = nlohmann::ordered_json;
using tests::is_valid, tests::Random, tests::random_tools;

namespace {

// Characters and pieces that cross the marks' borders.
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
    if (syntax.messages) continue;
    for (uint64_t seed = 0; seed < tests::call_seeds(12); ++seed) {
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
        CHECK(is_valid(arguments, std::ranges::find(tools, call.name, &Tool::name)->parameters));
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

TEST_CASE("strings that stand as they are keep what their schemas say, also where parts of schemas are combined") {
  const auto can_write = [](const char* syntax_name, const char* schema, const Json& value) {
    const CallSyntax& syntax = *std::ranges::find(call_syntaxes(), syntax_name, &CallSyntax::name);
    const std::vector<Tool> tools = {
        {"f", {{"type", "object"}, {"properties", {{"s", Json::parse(schema)}}}, {"required", {"s"}}}}};
    const Json arguments = {{"s", value}};
    const std::string text = write_calls(syntax, std::vector<ToolCall>{{"abcdefgh1", "f", arguments.dump()}});
    const Grammar grammar = Grammar::parse(gbnf_from_tools(syntax, tools, {}, nullptr));
    GrammarMatcher matcher(grammar, vocabulary());
    if (!matcher.allows_text(text)) return false;
    matcher.accept_text(text);
    return matcher.can_end();
  };
  struct Case {
    const char* schema;
    std::vector<Json> right, wrong;
  };
  const Case cases[] = {
      {R"({"type": "string", "pattern": "^\"[^\\s]$"})", {"\"x", "\"\\", "\"\x01"}, {"\"\\u0001", "\"", "\\\"x"}},
      {R"({"type": "string", "format": "uuid"})", {"01234567-89ab-cdef-0123-456789abcdef"}, {"abc", ""}},
      {R"({"type": "string", "format": "email"})", {"a@b.de"}, {"a"}},
      {R"({"type": "string", "anyOf": [{"maxLength": 2}, {"format": "ipv4"}]})", {"ab", "1.2.3.4"}, {"abc"}},
      {R"({"allOf": [{"type": "string", "minLength": 1}, {"maxLength": 3}]})", {"a", "abc"}, {"", "abcd"}},
      {R"({"type": ["string", "null"], "maxLength": 3})", {"abc", nullptr}, {"abcd"}},
      {R"({"maxLength": 3})", {"abc"}, {"abcd"}},
      {R"({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "integer", "minimum": 100}]})",
       {"abc", "", 120},
       {"abcd", "42", 42, "-1"}},
      {R"({"anyOf": [{"type": "string", "minLength": 2}, {"type": "object"}]})", {"abc"}, {"a", "{x"}},
      {R"({"enum": ["a", "bcd", 7], "maxLength": 2})", {"a", 7}, {"bcd", 8}},
  };
  for (const char* syntax : {"qwen3-coder", "minicpm5", "glm-4", "gemma4"}) {
    CAPTURE(std::string(syntax));
    for (const Case& each : cases) {
      CAPTURE(std::string(each.schema));
      for (const Json& value : each.right) {
        CAPTURE(value.dump());
        CHECK(can_write(syntax, each.schema, value));
      }
      for (const Json& value : each.wrong) {
        CAPTURE(value.dump());
        // Only Gemma's strings are delimited from all other values.
        if (value.is_string() && syntax == std::string_view("gemma4") &&
            (value == "42" || value == "-1" || value == "{x"))
          CHECK(can_write(syntax, each.schema, value));
        else
          CHECK(!can_write(syntax, each.schema, value));
      }
    }
  }
}

TEST_CASE("a string may have its closing mark in it where no other mark follows") {
  const Json schema = {{"type", "object"}, {"properties", {{"s", {{"type", "string"}}}}}, {"required", {"s"}}};
  const std::vector<Tool> tools = {{"f", schema}};
  const CallSyntax& syntax = *std::ranges::find(call_syntaxes(), "qwen3-coder", &CallSyntax::name);
  const Grammar grammar = Grammar::parse(gbnf_from_tools(syntax, tools, {}, nullptr));
  const auto allows = [&](const std::string& text) {
    GrammarMatcher matcher(grammar, vocabulary());
    return matcher.allows_text("<tool_call>\n<function=f>\n<parameter=s>\n" + text);
  };
  CHECK(allows("A ends with </parameter> here.\n</parameter>\n</function>\n</tool_call>"));
  CHECK(allows("</parameter>\n\n x </parameter>.\n</parameter>\n</function>"));
  CHECK_FALSE(allows("A </parameter>\n</tool_call>"));
  CHECK_FALSE(allows("A </parameter> <b> here"));
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

namespace {

bool can_call(const CallSyntax& syntax, const Json& parameters, const Json& arguments) {
  const std::vector<Tool> tools = {{"f", parameters}};
  const std::string text = write_calls(syntax, std::vector<ToolCall>{{"abcdefgh1", "f", arguments.dump()}});
  CAPTURE(text);
  const Grammar grammar = Grammar::parse(gbnf_from_tools(syntax, tools, {}, nullptr));
  GrammarMatcher matcher(grammar, vocabulary());
  if (!matcher.allows_text(text)) return false;
  matcher.accept_text(text);
  return matcher.can_end();
}

const CallSyntax& syntax_named(std::string_view name) {
  return *std::ranges::find(call_syntaxes(), name, &CallSyntax::name);
}

} // namespace

TEST_CASE("tools may be called like the rules that every grammar has") {
  for (const CallSyntax& syntax : call_syntaxes())
    for (const char* name : {"string", "value", "number", "space", "object", "root"}) {
      CAPTURE(syntax.name);
      CAPTURE(name);
      const std::vector<Tool> tools = {
          {name, Json::parse(R"({"type": "object", "properties": {"s": {"enum": ["a"]}}, "required": ["s"]})")}};
      const Grammar grammar = Grammar::parse(gbnf_from_tools(syntax, tools, {}, nullptr));
      const auto can_write = [&](const char* arguments) {
        GrammarMatcher matcher(grammar, vocabulary());
        return matcher.allows_text(write_calls(syntax, std::vector<ToolCall>{{"abcdefgh1", name, arguments}}));
      };
      CHECK(can_write(R"({"s": "a"})"));
      CHECK(!can_write(R"({"s": "b"})"));
    }
}

TEST_CASE("every syntax holds how many arguments there are, and which of them want others") {
  const auto parameters = [](const char* counts) {
    Json schema = Json::parse(R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"},
                                                                   "c": {"type": "integer"}}})");
    schema.update(Json::parse(counts));
    return schema;
  };
  struct Case {
    const char *counts, *taken, *refused;
  };
  const Case cases[] = {
      {R"({"minProperties": 2})", R"({"a": 1, "c": 1})", R"({"b": 1})"},
      {R"({"minProperties": 1})", R"({"c": 1})", "{}"},
      {R"({"maxProperties": 1})", R"({"b": 1})", R"({"b": 1, "c": 1})"},
      {R"({"minProperties": 2, "maxProperties": 2, "required": ["b"]})", R"({"a": 1, "b": 1})", R"({"b": 1})"},
      {R"({"dependentRequired": {"a": ["c"]}})", R"({"a": 1, "c": 1})", R"({"a": 1, "b": 1})"},
      {R"({"dependentRequired": {"a": ["c"]}})", R"({"b": 1})", R"({"a": 1})"},
  };
  for (const CallSyntax& syntax : call_syntaxes()) {
    CAPTURE(syntax.name);
    for (const auto& [counts, taken, refused] : cases) {
      CAPTURE(counts);
      const std::vector<Tool> tools = {{"f", parameters(counts)}};
      const Grammar grammar = Grammar::parse(gbnf_from_tools(syntax, tools, {}, nullptr));
      const auto takes = [&](const char* arguments) {
        const std::string text = write_calls(syntax, std::vector<ToolCall>{{"abcdefgh1", "f", arguments}});
        GrammarMatcher matcher(grammar, vocabulary());
        if (!matcher.allows_text(text)) return false;
        matcher.accept_text(text);
        return true;
      };
      CHECK(takes(taken));
      CHECK_FALSE(takes(refused));
    }
  }
}

TEST_CASE("what a syntax has no way to write is left out of its calls") {
  const auto can = [](const char* syntax, const char* schema, const char* arguments) {
    return can_call(syntax_named(syntax), Json::parse(schema), Json::parse(arguments));
  };
  CHECK(can("qwen3-coder", R"({"properties": {"a>b": {}, "c": {"const": 1}}, "required": ["a>b"]})", R"({"c": 1})"));
  CHECK(can("glm-4", R"({"properties": {}, "required": ["x"]})", R"({"x": "y"})"));
  CHECK_FALSE(can("glm-4", R"({"properties": {}, "required": ["x"]})", "{}"));
  CHECK(can("gemma4", R"({"properties": {"o": {"type": "object", "required": ["x"]}}})", R"({"o": {"x": 1}})"));
  CHECK(
      can("gemma4", R"({"properties": {"o": {"type": "array", "prefixItems": [{"type": "null"}]}}})", R"({"o": [1]})"));
  CHECK(can("gemma4", R"({"properties": {"o": {"enum": [{"k": ["a", 1]}, [true]]}}})", R"({"o": {"k": ["a", 1]}})"));
  CHECK_FALSE(
      can("gemma4", R"({"properties": {"o": {"enum": [{"k": ["a", 1]}, [true]]}}})", R"({"o": {"k": ["b", 1]}})"));
  const char* either = R"({"anyOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"$ref": "#/$defs/b"}],
                           "$defs": {"b": {"properties": {"b": {"const": 2}}, "required": ["b"]}}, "type": "object"})";
  for (const char* syntax : {"hermes", "qwen3-coder", "gemma4", "lfm2"}) {
    CAPTURE(syntax);
    CHECK(can(syntax, either, R"({"a": 1})"));
    CHECK(can(syntax, either, R"({"b": 2})"));
    CHECK_FALSE(can(syntax, either, "{}"));
    CHECK(
        can(syntax, R"({"properties": {"s": {"type": "string", "pattern": "^a$", "maxLength": 3}}})", R"({"s": "a"})"));
    CHECK_FALSE(can(syntax, R"({"properties": {"s": {"type": "string", "pattern": "^a+$", "maxLength": 3}}})",
                    R"({"s": "aaaa"})"));
  }
}

TEST_CASE("the shapes that Python's types and Zod give are held in every syntax, and checked") {
  for (const Json& shape : Json::parse(tests::read_file(RIDGE_SOURCE_DIR "/tests/text/tool_shapes.json"))) {
    CAPTURE(shape["name"].get<std::string>());
    const Json& schema = shape["schema"];
    const SchemaValidator check(schema);
    for (const Json& value : shape["inside"]) {
      const Json arguments = {{"a", value}};
      CAPTURE(arguments.dump());
      CHECK(check.complaint(arguments) == "");
      for (const CallSyntax& syntax : call_syntaxes()) {
        CAPTURE(syntax.name);
        if (syntax.arguments != ArgumentForm::gemma) CHECK(can_call(syntax, schema, arguments));
      }
    }
    for (const Json& value : shape["outside"]) {
      const Json arguments = {{"a", value}};
      CAPTURE(arguments.dump());
      CHECK_FALSE(can_call(syntax_named("hermes"), schema, arguments));
    }
    for (const CallSyntax& syntax : call_syntaxes()) CHECK_FALSE(can_call(syntax, schema, Json::object()));
  }
}
