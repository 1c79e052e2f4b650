#include "text/grammar/json_schema/json_schema.h"

#include "core/error.h"
#include "grammar_recognizer.h"
#include "grammar_walk.h"
#include "support/json_validator.h"
#include "support/numerics.h"
#include "text/grammar/grammar.h"
#include "text/schema/schema_validator.h"

#include <cmath>
#include <set>
#include <vector>

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
    R"({"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$", "minLength": 3, "maxLength": 6})",
    R"({"type": "string", "allOf": [{"pattern": "^[a-d]*$"}, {"pattern": "b.*b"}], "maxLength": 7})",
    R"({"type": "string", "format": "email", "pattern": "^[a-z]+@[a-z.]{5,9}$"})",
    R"({"type": "string", "pattern": "^(?!ab)(?=.*c)[a-c]{3,5}$"})",
    R"({"type": "string", "format": "uri", "maxLength": 20})",
    R"({"type": "integer", "multipleOf": 7, "minimum": -50, "maximum": 99})",
    R"({"type": "integer", "multipleOf": 35})",
    R"({"type": "integer", "multipleOf": 100, "minimum": 250})",
    R"({"type": "number", "multipleOf": 0.01, "minimum": 0.5, "exclusiveMaximum": 12.25})",
    R"({"type": "number", "exclusiveMinimum": -0.75, "maximum": 0.125})",
    R"({"type": "number", "minimum": 1.25, "maximum": 1.375})",
    R"({"type": "number", "minimum": -3.5, "maximum": -2.25})",
    R"({"type": "number", "maximum": 1000000000000000})",
    R"({"type": "object", "patternProperties": {"^x_": {"type": "integer"}}, "additionalProperties": false})",
    R"({"type": "object", "properties": {"x_a": {"maximum": 5}, "b": {"const": 1}}, "required": ["x_a"],
        "patternProperties": {"^x_": {"type": "integer"}, "c$": {"minimum": 3}}, "additionalProperties": {"type": "null"}})",
    R"({"type": "object", "propertyNames": {"enum": ["a", "b", "c"]}, "additionalProperties": {"type": "integer"}})",
    R"({"type": "object", "propertyNames": {"pattern": "^[a-z]{1,3}$"}, "additionalProperties": {"type": "boolean"}})",
    R"({"type": "object", "propertyNames": {"maxLength": 2}, "minProperties": 1})",
    R"({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2, "maxProperties": 3})",
    R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "required": ["b"], "minProperties": 2})",
    R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "maxProperties": 1})",
    R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}},
        "dependentRequired": {"a": ["c"], "c": ["b"]}})",
    R"({"properties": {"a": {"const": 1}}, "required": ["a", "b"]})",
    R"({"enum": [{"k": 1}, [1, 2], "abc", 3], "type": ["object", "string"], "maxLength": 2})",
    R"({"enum": [1, 2, 10, "ab", "b"], "minimum": 2, "pattern": "^a"})",
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

bool repeats_a_name(const std::string& text) {
  bool repeats = false;
  std::vector<std::set<std::string>> names;
  const auto look = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key) repeats |= !names.back().insert(value.get<std::string>()).second;
    return true;
  };
  return Json::parse(text, look, false).is_discarded() || repeats;
}

bool allows(const std::string& schema, const std::string& text) {
  const std::string gbnf = gbnf_from_json_schema(Json::parse(schema));
  Grammar::parse(gbnf);
  return Recognizer(gbnf).accepts(text);
}

} // namespace

TEST_CASE("a part that nothing satisfies leaves what follows as it is") {
  const std::string schema = R"({"$defs": {"never": {"allOf": [{"type": "string"}, {"type": "integer"}]}},
      "type": "object", "required": ["a"], "properties": {"a": {"anyOf": [
          {"allOf": [{"$ref": "#/$defs/never"}]}, {"allOf": [{"$ref": "#/$defs/never"}]}, {"const": 1}]}}})";
  CHECK(allows(schema, R"({"a": 1})"));
  CHECK(!allows(schema, R"({"a": 2})"));
  CHECK(!allows(schema, R"({"a": "x"})"));
}

TEST_CASE("whatever is drawn under a schema's grammar is JSON that the schema allows") {
  const uint64_t seed = ridge::tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  constexpr int kOutputs = 60, kMaxOutputs = 2000; // loose patterns may need many
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
    for (int i = 0; i < kOutputs || (complete == 0 && i < kMaxOutputs); ++i) {
      const auto walk = ridge::tests::random_walk(matcher, table, random, 20);
      CAPTURE(walk.text);
      if (!walk.is_complete) continue;
      ++complete;
      if (repeats_a_name(walk.text)) continue; // grammars cannot prevent it
      const Json value = Json::parse(walk.text, nullptr, false);
      REQUIRE_FALSE(value.is_discarded());
      REQUIRE(is_valid(value, schema));
      REQUIRE(SchemaValidator(schema).complaint(value) == "");
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
  for (const char* date : {"2020-01-31", "1999-12-31", "0070-02-28", "2024-02-29", "2000-02-29"})
    CHECK(holds("date", date));
  for (const char* date :
       {"0000-01-01", "2021-02-30", "2021-04-31", "2021-13-01", "21-01-01", "2023-02-29", "1900-02-29"}) {
    CHECK_FALSE(holds("date", date));
  }
  CHECK(holds("time", "23:59:59.5+02:00"));
  CHECK_FALSE(holds("time", "24:00:00Z"));
  CHECK(holds("date-time", "2020-02-28T00:00:00Z"));
  for (const char* duration : {"P3D", "PT12H30M5S", "P1Y2M3DT4H", "P4W", "PT0.5S"}) CHECK(holds("duration", duration));
  for (const char* duration : {"P", "PT", "3D", "P1D2Y"}) CHECK_FALSE(holds("duration", duration));
  for (const char* uri :
       {"https://example.org:8080/a%20b/c.html?x=1&y=2#top", "http://localhost:8080/", "https://a.b/c", "mailto:a@b.c",
        "mailto:", "urn:isbn:1", "file:///tmp/x", "https://user@h.org/", "http://[::1]:80/"})
    CHECK(holds("uri", uri));
  for (const char* uri : {"https://exa mple.org", "a.b/c", "//a/b", "1http://a", "http://a/%zz"})
    CHECK_FALSE(holds("uri", uri));
  for (const char* reference : {"", "/a/b", "a.html#x", "?q=1", "https://a.b/c", "../x"})
    CHECK(holds("uri-reference", reference));
  for (const char* email : {"jo.doe+x@mail.example.org", "a@localhost", "a@b.c", "a@[127.0.0.1]", "o'neil@x.ie"})
    CHECK(holds("email", email));
  for (const char* email : {"jo@doe@example.org", "a@", "@b.c", ".a@b.c", "a@b..c"}) CHECK_FALSE(holds("email", email));
  CHECK(holds("ipv4", "255.0.10.199"));
  CHECK_FALSE(holds("ipv4", "256.0.0.1"));
  for (const char* address :
       {"2001:db8:0:0:0:0:0:1", "::1", "::", "2001:db8::1", "::ffff:1.2.3.4", "1::", "1:2:3:4:5:6:7::"})
    CHECK(holds("ipv6", address));
  for (const char* address : {"1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "1:2:3", ":::"})
    CHECK_FALSE(holds("ipv6", address));
  for (const char* host : {"a-b.example.org", "localhost", "1.com"}) CHECK(holds("hostname", host));
  for (const char* host : {"", "-a", "a-", "a..b"}) CHECK_FALSE(holds("hostname", host));
  CHECK(allows(R"({"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083})", R"("http://a.de")"));
  for (const char* unknown : {"", "color", "int64", "path", "binary", "url", "uri-template", "regex"})
    CHECK(holds(unknown, "any text"));
  CHECK(allows(R"({"type": "integer", "format": "uint", "minimum": 0})", "7"));
}

TEST_CASE("what is no schema is refused by its JSON path") {
  const auto refuses = [](const std::string& schema, const std::string& complaint) {
    const std::string message = schema_message(schema);
    CAPTURE(message);
    CHECK(message.find(complaint) != std::string::npos);
  };
  refuses(R"({"properties": {"a/b": {"items": {"type": 5}}}})",
          "#/properties/a~1b/items: `type` must be one or more of");
  refuses(R"({"anyOf": [{"type": "string"}, {"if": 3}]})", "#/anyOf/1/if: a schema must be an object");
  refuses(R"({"type": "str"})", "`type` must be one or more of");
  refuses(R"({"type": "string", "minLength": -1})", "`minLength` must be a whole number");
  refuses(R"({"type": "string", "minLength": 1.5})", "`minLength` must be a whole number");
  refuses(R"({"properties": []})", "`properties` must be an object");
  refuses(R"({"required": "a"})", "`required` must be a list of names");
  refuses(R"({"multipleOf": 0})", "`multipleOf` must be a number above 0");
  refuses(R"({"pattern": 5})", "`pattern` must be a string");
  refuses(R"({"dependentRequired": {"a": "b"}})", "`dependentRequired` must be an object of lists of names");
  refuses(R"({"anyOf": []})", "#: `anyOf` must not be empty");
  refuses(R"({"$defs": {"x": {"enum": 1}}})", "#/$defs/x: `enum` must be a list");
  refuses("3", "a schema must be an object");
  refuses(std::string(100000, '[') + std::string(100000, ']'), "nested deeper than");
}

TEST_CASE("what a grammar cannot hold is left out of it, and the rest of the schema holds") {
  const auto holds = [](const std::string& schema, const std::string& inside, const std::string& outside) {
    CAPTURE(schema);
    CHECK(allows(schema, inside));
    if (!outside.empty()) CHECK_FALSE(allows(schema, outside));
  };
  holds(R"({"type": "integer", "not": {"const": 3}})", "3", "\"a\"");
  holds(R"({"type": "object", "properties": {"k": {"const": 1}}, "if": {"required": ["k"]}, "then": false})",
        R"({"k":1})", R"({"k":2})");
  holds(R"({"type": "array", "items": {"type": "integer"}, "uniqueItems": true, "contains": {"const": 4}})", "[1,1]",
        "[null]");
  holds(R"({"type": "string", "pattern": "a(?=b)|(c)\\1|\\bd|a^b", "maxLength": 2})", "\"xy\"", "\"xyz\"");
  for (const char* broken : {"(a", "[b-a]", "a)", "*a", "\\\\p{L}", "(?<=a)b", "a{2}{3}", "[]"})
    holds(fmt::format(R"({{"type": "string", "pattern": "{}"}})", broken), "\"xy\"", "5");
  holds(R"({"$ref": "http://x/y", "minimum": 3})", "5", "2");
  holds(R"({"$ref": "#/nowhere", "type": "integer"})", "5", "\"a\"");
  holds(R"({"type": "integer", "$dynamicRef": "#node", "minLenght": 1, "x-y": 2})", "5", "\"a\"");
  holds(R"({"$ref": "#"})", "5", "");
  holds(R"({"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}})",
        "null", "");
  holds(R"({"allOf": [{"$ref": "#"}], "type": "integer"})", "5", "\"a\"");
  holds(R"({"type": "string", "pattern": null, "minLength": null})", "\"\"", "5");
  holds(R"({"type": "object", "properties": {"a": {"type": "integer", "required": true}}, "required": null})", "{}",
        R"({"a":""})");
  holds(R"({"anyOf": [{"not": {}}, {"type": "string"}]})", "\"a\"", "5");
  holds(R"({"type": "integer", "multipleOf": 2.5, "minimum": 3})", "4", "2");
  holds(R"({"type": "string", "maxLength": 1000000000, "pattern": "^(a{1000}){1000}$"})", "\"x\"", "5");
}

TEST_CASE("what nothing satisfies may be anything, as far as that is to blame") {
  CHECK(allows(R"({"type": "integer", "minimum": 3, "maximum": 2})", "7"));
  CHECK(allows("false", "7"));
  const char* closed = R"({"properties": {"a": {"const": 1}}, "required": ["a", "b"], "additionalProperties": false})";
  CHECK(allows(closed, R"({"a":1})"));
  CHECK_FALSE(allows(closed, R"({"a":2})"));
  CHECK_FALSE(allows(closed, R"({"a":1,"b":2})"));
  const char* odd = R"({"properties": {"a": {"type": "string", "minLength": 3, "maxLength": 2}, "b": {"const": 1}},
                        "required": ["a", "b"]})";
  CHECK(allows(odd, R"({"a":"x","b":1})"));
  CHECK_FALSE(allows(odd, R"({"a":"x","b":2})"));
  CHECK(allows(R"({"anyOf": [false, {"const": 1}, {"allOf": [{"type": "string"}, {"type": "null"}]}]})", "1"));
  CHECK_FALSE(allows(R"({"anyOf": [false, {"const": 1}, {"allOf": [{"type": "string"}, {"type": "null"}]}]})", "null"));
  CHECK(allows(R"({"type": "array", "prefixItems": [{"const": 1}, false]})", "[1]"));
  CHECK_FALSE(allows(R"({"type": "array", "prefixItems": [{"const": 1}, false]})", "[1,2]"));
}

TEST_CASE("references lead to anchors and identifiers within the document") {
  CHECK_FALSE(allows(R"({"$ref": "#here", "$defs": {"a": {"$anchor": "here", "type": "integer"}}})", "\"a\""));
  CHECK_FALSE(allows(R"({"$ref": "http://x/y", "$defs": {"a": {"$id": "http://x/y", "type": "integer"}}})", "\"a\""));
}

TEST_CASE("of schemas that grow when combined, less is held") {
  std::string many = R"({"type": "number", "allOf": [)";
  for (int i = 0; i < 30; ++i)
    many += fmt::format(R"({}{{"anyOf": [{{"minimum": {}}}, {{"maximum": {}}}]}})", i ? "," : "", i, i);
  CHECK(allows(many + "]}", "5"));
  CHECK_FALSE(allows(many + "]}", "\"a\""));
  std::string doubling = R"({"$ref": "#/$defs/0", "$defs": {"30": {"type": "null"})";
  for (int i = 0; i < 30; ++i) {
    doubling +=
        fmt::format(R"(,"{}": {{"allOf": [{{"$ref": "#/$defs/{}"}}, {{"$ref": "#/$defs/{}"}}]}})", i, i + 1, i + 1);
  }
  CHECK(allows(doubling + "}}", "null"));
  const std::string wide = R"({"type": "string", "minLength": 90000, "maxLength": 99000})";
  std::string large = R"({"type": "object", "properties": {"n": {"type": "integer"})";
  for (int i = 0; i < 30; ++i)
    large += fmt::format(R"(, "p{}": {{"type": "array", "maxItems": 100000, "items": {}}})", i, wide);
  CHECK(allows(large + "}}", R"({"n":3})"));
  CHECK_FALSE(allows(large + "}}", R"({"n":"x"})"));
}
