#include "text/grammar/json_schema.h"

#include "core/error.h"
#include "grammar_recognizer.h"
#include "grammar_walk.h"
#include "support/json_validator.h"
#include "support/numerics.h"
#include "text/grammar/grammar.h"

#include <cmath>
#include <regex>

using namespace ridge::text;
using ridge::Error;
using ridge::tests::is_valid, ridge::tests::Recognizer;
using Json = nlohmann::ordered_json;

namespace {

const char* const kSchemas[] = {
    R"({})",
    R"({"type": "object"})",
    R"({"type": ["string", "null", "boolean"]})",
    R"({"enum": ["a\"\\\n", 1, -2.5, null, {"k": [true]}, "日本"]})",
    R"({"const": {"a": [1, "x"]}})",
    R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "null"}}})",
    R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}, "c": {"type": "null"}},
        "required": ["b"]})",
    R"({"type": "object", "properties": {"name": {"type": "string"}, "nam": {"type": "integer"}, "é\"x": {"const": 1}},
        "required": ["name"], "additionalProperties": {"type": "boolean"}})",
    R"({"type": "object", "required": ["x", "y"], "additionalProperties": {"type": "integer"}})",
    R"({"type": "array", "items": {"type": "integer", "minimum": -3, "maximum": 12}, "minItems": 2, "maxItems": 4})",
    R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}, {"type": "null"}], "minItems": 1})",
    R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false, "minItems": 2})",
    R"({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": {"const": 3}, "minItems": 3, "maxItems": 5})",
    R"({"type": "array", "maxItems": 0})",
    R"({"type": "string", "minLength": 2, "maxLength": 5})",
    R"({"type": "string", "minLength": 3})",
    R"({"type": "string", "pattern": "^[A-Z]{2,3}-\\d+(\\.[^\\s\"]{1,2})?$"})",
    R"({"type": "string", "pattern": "ab+|^(x|[\"\\\\/])$"})",
    R"({"type": "string", "format": "date"})",
    R"({"type": "string", "format": "date-time"})",
    R"({"type": "string", "format": "uuid"})",
    R"({"type": "string", "format": "email"})",
    R"({"type": "string", "format": "ipv4"})",
    R"({"type": "integer", "minimum": 7})",
    R"({"type": "integer", "exclusiveMaximum": -19})",
    R"({"type": "integer", "minimum": 98, "exclusiveMaximum": 12345})",
    R"({"type": "integer", "exclusiveMinimum": 2.5, "maximum": 3.5})",
    R"({"type": "number"})",
    R"({"type": "number", "minimum": 0})",
    R"({"type": "number", "exclusiveMinimum": 0, "maximum": 1})",
    R"({"type": "number", "minimum": -5, "exclusiveMaximum": 17})",
    R"({"type": "number", "exclusiveMinimum": -12, "exclusiveMaximum": -10})",
    R"({"anyOf": [{"type": "integer", "minimum": 3}, {"type": "string", "maxLength": 2}, false]})",
    R"({"type": "object", "properties": {"kind": {"enum": ["a", "b"]}}, "required": ["kind"],
        "oneOf": [{"properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["x"]},
                  {"properties": {"kind": {"const": "b"}, "y": {"type": "null"}}}]})",
    R"({"allOf": [{"$ref": "#/$defs/named"}, {"properties": {"age": {"type": "integer", "minimum": 0}}, "required": ["age"]}],
        "$defs": {"named": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}})",
    R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {
        "value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, "required": ["value"]}}})",
    R"({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"]})",
};

std::string schema_message(const std::string& schema) {
  try {
    gbnf_from_json_schema(Json::parse(schema));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool allows(const std::string& schema, const std::string& text) {
  const std::string gbnf = gbnf_from_json_schema(Json::parse(schema));
  Grammar::parse(gbnf);
  return Recognizer(gbnf).accepts(text);
}

} // namespace

TEST_CASE("whatever is drawn under a schema's grammar is JSON that the schema allows") {
  const uint64_t seed = ridge::tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  constexpr int kOutputs = 60, kMostOutputs = 2000; // a loose pattern can take many until one ends
  for (const char* schema_text : kSchemas) {
    CAPTURE(std::string(schema_text));
    const Json schema = Json::parse(schema_text);
    const std::string gbnf = gbnf_from_json_schema(schema);
    CAPTURE(gbnf);
    const Grammar grammar = Grammar::parse(gbnf);
    const auto pieces = ridge::tests::odd_vocabulary(random, "ab01{}[]\",: \\.-@:TZxyname");
    const TokenTable table(pieces, std::vector<int32_t>{0});
    GrammarMatcher matcher(grammar, table);
    int complete = 0;
    for (int i = 0; i < kOutputs || (complete == 0 && i < kMostOutputs); ++i) {
      const auto walk = ridge::tests::random_walk(matcher, table, random, 20);
      CAPTURE(walk.text);
      if (!walk.is_complete) continue;
      ++complete;
      const Json value = Json::parse(walk.text, nullptr, false);
      REQUIRE_FALSE(value.is_discarded());
      REQUIRE(is_valid(value, schema));
    }
    CHECK(complete > 0);
  }
}

TEST_CASE("integer ranges hold exactly their numbers") {
  const uint64_t seed = ridge::tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 40; ++i) {
    int64_t min = static_cast<int64_t>(random() % 3000) - 1500, max = static_cast<int64_t>(random() % 3000) - 1500;
    if (min > max) std::swap(min, max);
    CAPTURE(min);
    CAPTURE(max);
    for (const int kind : {0, 1, 2}) {
      Json schema = {{"type", "integer"}};
      if (kind != 1) schema["minimum"] = min;
      if (kind != 2) schema["maximum"] = max;
      Recognizer recognizer(gbnf_from_json_schema(schema));
      for (int64_t n = -1600; n <= 1600; n += 1 + static_cast<int64_t>(random() % 5)) {
        CAPTURE(n);
        REQUIRE(recognizer.accepts(std::to_string(n)) == ((kind == 1 || n >= min) && (kind == 2 || n <= max)));
      }
      REQUIRE(recognizer.accepts("123456789012") == (kind == 2));
      REQUIRE(recognizer.accepts("-123456789012") == (kind == 1));
      REQUIRE_FALSE(recognizer.accepts("007"));
    }
  }
}

TEST_CASE("number ranges hold their decimals and nothing beyond") {
  Recognizer positive(gbnf_from_json_schema(Json::parse(R"({"type": "number", "exclusiveMinimum": 0})")));
  for (const char* inside : {"0.001", "1", "3.5", "120000.25"}) CHECK(positive.accepts(inside));
  for (const char* outside : {"0", "0.0", "-1", "-0.5", "00.1"}) CHECK_FALSE(positive.accepts(outside));
  Recognizer percent(gbnf_from_json_schema(Json::parse(R"({"type": "number", "minimum": 0, "maximum": 100})")));
  for (const char* inside : {"0", "0.0", "99.999", "100", "100.00", "7.25"}) CHECK(percent.accepts(inside));
  for (const char* outside : {"100.01", "101", "-0.1", "1000"}) CHECK_FALSE(percent.accepts(outside));
  Recognizer negative(
      gbnf_from_json_schema(Json::parse(R"({"type": "number", "minimum": -2, "exclusiveMaximum": -1})")));
  for (const char* inside : {"-2", "-1.5", "-2.0", "-1.01"}) CHECK(negative.accepts(inside));
  for (const char* outside : {"-1", "-1.0", "-2.01", "1.5", "-0.5"}) CHECK_FALSE(negative.accepts(outside));
}

TEST_CASE("optional properties appear in any subset, in the schema's order") {
  const char* schema =
      R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "required": ["b"]})";
  for (const char* inside :
       {R"({"b":2})", R"({"a":1,"b":2})", R"({"b":2,"c":3})", R"({"a":1,"b":2,"c":3})", "{\n  \"b\": 2\n}"}) {
    CHECK(allows(schema, inside));
  }
  for (const char* outside : {"{}", R"({"a":1})", R"({"b":2,"a":1})", R"({"a":1,,"b":2})", R"({"b":2,"d":4})"}) {
    CHECK_FALSE(allows(schema, outside));
  }
  const char* optional = R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}})";
  for (const char* inside : {"{}", R"({"a":1})", R"({"b":2})", R"({"c":3})", R"({"a":1,"c":3})", R"({"b":2,"c":3})"}) {
    CHECK(allows(optional, inside));
  }
  CHECK_FALSE(allows(optional, R"({"b":2,"a":1})"));
}

TEST_CASE("additional properties cannot take a declared name, however it is spelled") {
  const char* schema = R"({"properties": {"ab": {"const": 1}, "a": {"const": 2}, "a\nb": {"const": 3}},
                           "additionalProperties": {"const": 0}})";
  for (const char* inside : {R"({"ab":1})", R"({"abc":0})", R"({"b":0})", R"({"":0})", R"({"ab":1,"ac":0,"c":0})",
                             R"({"a\nb":3})", R"({"a\nc":0})", R"({"a\tb":0})", R"({"aé":0})", R"({"a\"":0})"}) {
    CAPTURE(inside);
    CHECK(allows(schema, inside));
  }
  for (const char* outside : {R"({"ab":0})", R"({"a":0})", R"({"\u0061":0})", R"({"a\nb":0})", R"({"b":0,"ab":1})"}) {
    CAPTURE(outside);
    CHECK_FALSE(allows(schema, outside));
  }
  CHECK(allows(R"({"additionalProperties": false})", "{}"));
  CHECK_FALSE(allows(R"({"additionalProperties": false})", R"({"a":1})"));
}

TEST_CASE("schemas of before 2020 and OpenAPI's nullable are understood") {
  CHECK(allows(R"({"type": "array", "items": [{"const": 1}, {"const": 2}], "additionalItems": {"const": 3}})",
               "[1,2,3,3]"));
  CHECK_FALSE(allows(R"({"type": "array", "items": [{"const": 1}], "additionalItems": false})", "[1,1]"));
  CHECK(allows(R"({"type": "integer", "minimum": 3, "exclusiveMinimum": true})", "4"));
  CHECK_FALSE(allows(R"({"type": "integer", "minimum": 3, "exclusiveMinimum": true})", "3"));
  CHECK(allows(R"({"type": "string", "nullable": true})", "null"));
  CHECK(allows(R"({"$ref": "#/definitions/a~1b%20c", "definitions": {"a/b c": {"const": 5}}})", "5"));
}

TEST_CASE("allOf narrows: bounds, enums, types and closed objects of its parts all hold") {
  CHECK(allows(R"({"allOf": [{"type": "integer", "minimum": 2}, {"type": "number", "maximum": 4}]})", "4"));
  CHECK_FALSE(allows(R"({"allOf": [{"type": "integer", "minimum": 2}, {"type": "number", "maximum": 4}]})", "5"));
  CHECK_FALSE(allows(R"({"allOf": [{"enum": [1, 2]}, {"enum": [2, 3]}]})", "1"));
  const char* closed = R"({"allOf": [{"properties": {"a": {"const": 1}}, "additionalProperties": false},
                                     {"properties": {"a": {"type": "integer"}, "b": {"const": 2}}}]})";
  CHECK(allows(closed, R"({"a":1})"));
  CHECK_FALSE(allows(closed, R"({"a":1,"b":2})"));
  const char* both = R"({"type": "string", "anyOf": [{"minLength": 3}, {"maxLength": 1}],
                         "oneOf": [{"enum": ["", "ab"]}, {"const": "abc"}, {"const": 1}]})";
  CHECK(allows(both, R"("")"));
  CHECK(allows(both, R"("abc")"));
  CHECK_FALSE(allows(both, R"("ab")"));
  CHECK_FALSE(allows(both, "1"));
}

TEST_CASE("strings in a grammar escape what JSON escapes") {
  CHECK(allows(R"({"type": "string"})", R"("a\"\\\/\b\u00e9\uD83D\uDE00é😀")"));
  CHECK_FALSE(allows(R"({"type": "string"})", R"("\uD83D")"));
  CHECK_FALSE(allows(R"({"type": "string"})", "\"\n\""));
  CHECK(allows(R"({"type": "string", "maxLength": 1})", R"("\uD83D\uDE00")"));
  CHECK(allows(R"({"type": "string", "pattern": "^.\\s$"})", R"("\"\n")"));
}

TEST_CASE("formats hold what their names say") {
  const auto holds = [](const std::string& format, const std::string& text) {
    return allows(fmt::format(R"({{"type": "string", "format": "{}"}})", format), '"' + text + '"');
  };
  for (const char* date : {"2020-01-31", "1999-12-31", "0070-02-28", "2024-11-30"}) CHECK(holds("date", date));
  for (const char* date : {"0000-01-01", "2021-02-30", "2021-04-31", "2021-13-01", "21-01-01"}) {
    CHECK_FALSE(holds("date", date));
  }
  CHECK(holds("time", "23:59:59.5+02:00"));
  CHECK_FALSE(holds("time", "24:00:00Z"));
  CHECK(holds("date-time", "2020-02-29T00:00:00Z") == false); // leap days would need arithmetic
  CHECK(holds("date-time", "2020-02-28T00:00:00Z"));
  CHECK(holds("uri", "https://example.org:8080/a%20b/c.html?x=1&y=2#top"));
  CHECK_FALSE(holds("uri", "https://exa mple.org"));
  CHECK(holds("email", "jo.doe+x@mail.example.org"));
  CHECK_FALSE(holds("email", "jo@doe@example.org"));
  CHECK(holds("ipv4", "255.0.10.199"));
  CHECK_FALSE(holds("ipv4", "256.0.0.1"));
  CHECK(holds("ipv6", "2001:db8:0:0:0:0:0:1"));
  CHECK(holds("hostname", "a-b.example.org"));
  CHECK(allows(R"({"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083})", R"("http://a.de")"));
}

TEST_CASE("what is not supported or not satisfiable is refused by its JSON path") {
  const auto refuses = [](const std::string& schema, const std::string& complaint) {
    const std::string message = schema_message(schema);
    CAPTURE(message);
    CHECK(message.find(complaint) != std::string::npos);
  };
  refuses(R"({"properties": {"a/b": {"items": {"not": {}}}}})",
          "#/properties/a~1b/items: the keyword `not` is not supported");
  refuses(R"({"anyOf": [{"type": "string"}, {"if": {}}]})", "#/anyOf/1: the keyword `if` is not supported");
  refuses(R"({"type": "array", "uniqueItems": true})", "#: the keyword `uniqueItems`");
  refuses(R"({"type": "object", "patternProperties": {}})", "the keyword `patternProperties`");
  refuses(R"({"minLenght": 1})", "the keyword `minLenght`");
  refuses(R"({"type": "str"})", "`type` must name types");
  refuses(R"({"type": "string", "minLength": -1})", "`minLength` must be a whole number");
  refuses(R"({"type": "string", "minLength": 1.5})", "`minLength` must be a whole number");
  refuses(R"({"properties": []})", "`properties` must be an object");
  refuses(R"({"type": "string", "format": "color"})", "the format `color`");
  refuses(R"({"$ref": "http://x/y"})", "only references within the document");
  refuses(R"({"$ref": "#/nowhere"})", "there is nothing at that place");
  refuses(R"({"$ref": "#"})", "leads back to itself");
  refuses(R"({"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}})",
          "leads back to itself");
  refuses(R"({"allOf": [{"$ref": "#"}]})", "refers to itself");
  refuses(R"({"type": "integer", "minimum": 3, "maximum": 2})", "the bounds leave no number");
  refuses(R"({"type": "number", "minimum": 0.5})", "`minimum` of a `number` must be whole");
  refuses(R"({"type": "string", "minLength": 3, "maxLength": 2})", "at least 3 and at most 2");
  refuses(R"({"type": "array", "minItems": 3, "maxItems": 2})", "at least 3 and at most 2");
  refuses(R"({"allOf": [{"type": "string"}, {"type": "null"}]})", "the types exclude each other");
  refuses(R"({"required": ["a"], "additionalProperties": false})", "the required property `a` is not allowed");
  refuses(R"({"properties": {"a": false}, "required": ["a"]})", "#/properties/a: nothing satisfies this");
  refuses(R"({"type": "string", "pattern": "(?=a)b"})", "#: pattern, offset 2: look-around");
  refuses(R"({"type": "string", "pattern": "a\\b"})", "`\\b` is not supported");
  refuses(R"({"type": "string", "pattern": "(a)\\1"})", "`\\1` is not supported");
  refuses(R"({"type": "string", "pattern": "a^b"})", "only at the beginning and end");
  refuses(R"({"type": "string", "pattern": "(a"})", "no closing `)`");
  refuses(R"({"type": "string", "pattern": "[b-a]"})", "the range ends before it begins");
  refuses(R"({"anyOf": []})", "#: `anyOf` must not be empty");
  refuses("false", "nothing satisfies this");
  refuses("3", "a schema must be an object");
  refuses(std::string(100000, '[') + std::string(100000, ']'), "nested deeper than");
}

TEST_CASE("schemas that grow when combined meet a limit") {
  std::string many = R"({"allOf": [)";
  for (int i = 0; i < 30; ++i)
    many += fmt::format(R"({}{{"anyOf": [{{"minimum": {}}}, {{"maximum": {}}}]}})", i ? "," : "", i, i);
  CHECK(schema_message(many + "]}").find("combinations of anyOf") != std::string::npos);
  std::string doubling = R"({"$ref": "#/$defs/0", "$defs": {"30": {"type": "null"})";
  for (int i = 0; i < 30; ++i) {
    doubling +=
        fmt::format(R"(,"{}": {{"allOf": [{{"$ref": "#/$defs/{}"}}, {{"$ref": "#/$defs/{}"}}]}})", i, i + 1, i + 1);
  }
  CHECK(schema_message(doubling + "}}").find("too large once its parts are combined") != std::string::npos);
}
