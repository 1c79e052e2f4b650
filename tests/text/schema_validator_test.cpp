// Compares with valijson (draft 7) on random schemas.
#include "core/random.h"
#include "text/schema/schema.h"
#include "text/schema/schema_validator.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include <string>

using ridge::text::clean_schema, ridge::text::SchemaValidator;
using Json = nlohmann::ordered_json;

namespace {

struct Random {
  uint64_t seed, count = 0;
  size_t below(size_t n) { return ridge::core::mix_bits(ridge::core::mix_bits(seed) + ++count) % n; }
};

Json random_value(Random& random, int depth = 0) {
  switch (random.below(depth > 2 ? 5 : 8)) {
  case 0: return nullptr;
  case 1: return random.below(2) == 0;
  case 2: return static_cast<int>(random.below(12)) - 4;
  case 3: return static_cast<double>(random.below(8)) + 0.5;
  case 4: return std::string(random.below(4), static_cast<char>('a' + random.below(3)));
  case 5: {
    Json list = Json::array();
    for (size_t i = random.below(4); i-- > 0;) list.push_back(random_value(random, depth + 1));
    return list;
  }
  default: break;
  }
  Json object = Json::object();
  for (const char* name : {"a", "b", "ab"})
    if (random.below(2)) object[name] = random_value(random, depth + 1);
  return object;
}

Json random_schema(Random& random, int depth = 0) {
  const auto part = [&] { return depth > 2 ? Json(random.below(4) > 0) : random_schema(random, depth + 1); };
  const auto count = [&] { return random.below(4); };
  Json schema = Json::object();
  for (size_t i = 1 + random.below(3); i-- > 0;) {
    switch (random.below(24)) {
    case 0: schema["type"] = {"object", "array"}; break;
    case 1: schema["type"] = random.below(2) ? "string" : "integer"; break;
    case 2: schema["enum"] = {random_value(random, 2), random_value(random, 2), random_value(random, 2)}; break;
    case 3: schema["const"] = random_value(random, 2); break;
    case 4: schema["properties"] = {{"a", part()}, {"ab", part()}}; break;
    case 5: schema["required"] = {random.below(2) ? "a" : "b"}; break;
    case 6: schema["additionalProperties"] = part(); break;
    case 7: schema["patternProperties"] = {{"^a", part()}, {"b$", part()}}; break;
    case 8: schema["propertyNames"] = {{"maxLength", 1}}; break;
    case 9: schema["minProperties"] = count(); break;
    case 10: schema["maxProperties"] = count(); break;
    case 11: schema["items"] = part(); break;
    case 12: schema["minItems"] = count(); break;
    case 13: schema["maxItems"] = count(); break;
    case 14: schema["uniqueItems"] = true; break;
    case 15: schema["contains"] = part(); break;
    case 16: schema["minLength"] = count(); break;
    case 17: schema["pattern"] = random.below(2) ? "^a+$" : "b|c.c"; break;
    case 18: schema["minimum"] = static_cast<double>(count()) - 0.5; break;
    case 19: schema["exclusiveMaximum"] = count(); break;
    case 20: schema["minProperties"] = 1; break; // valijson: 2.5 is a multiple of 2
    case 21: schema[random.below(2) ? "anyOf" : "oneOf"] = {part(), part()}; break;
    case 22: schema[random.below(2) ? "not" : "if"] = part(); break;
    default: schema[random.below(2) ? "then" : "allOf"] = Json();
    }
  }
  if (schema.contains("then")) schema["then"] = part();
  if (schema.contains("allOf")) schema["allOf"] = {part(), part()};
  if (schema.contains("if")) schema["else"] = part();
  return schema;
}

bool valijson_accepts(const Json& schema, const Json& value) {
  const auto plain_schema = nlohmann::json::parse(schema.dump()), plain_value = nlohmann::json::parse(value.dump());
  valijson::Schema parsed;
  valijson::SchemaParser().populateSchema(valijson::adapters::NlohmannJsonAdapter(plain_schema), parsed);
  return valijson::Validator().validate(parsed, valijson::adapters::NlohmannJsonAdapter(plain_value), nullptr);
}

std::string complaint(const char* schema, const char* value) {
  return SchemaValidator(clean_schema(Json::parse(schema))).complaint(Json::parse(value));
}

} // namespace

TEST_CASE("the validator finds what valijson finds") {
  int accepted = 0, refused = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Random random{seed};
    const Json schema = random_schema(random);
    if (!schema.contains("if") && schema.contains("then")) continue;
    CAPTURE(schema.dump());
    const SchemaValidator validator(clean_schema(schema));
    for (int i = 0; i < 10; ++i) {
      const Json value = random_value(random);
      CAPTURE(value.dump());
      const std::string found = validator.complaint(value);
      CAPTURE(found);
      const bool accepts = valijson_accepts(schema, value);
      CHECK(found.empty() == accepts);
      ++(accepts ? accepted : refused);
    }
  }
  CHECK(accepted > 1000);
  CHECK(refused > 1000);
}

TEST_CASE("the validator knows draft 2020-12, and what schemas of before draft 6 and OpenAPI mean") {
  CHECK(complaint(R"({"prefixItems": [{"type": "string"}], "items": false})", "[\"a\", 1]") ==
        "/1: no value is allowed");
  CHECK(complaint(R"({"items": [{"type": "string"}], "additionalItems": {"type": "null"}})", "[\"a\", 1]") != "");
  CHECK(complaint(R"({"dependentRequired": {"a": ["b"]}})", R"({"a": 1})") == "/: `a` requires `b`");
  CHECK(complaint(R"({"dependentSchemas": {"a": {"maxProperties": 1}}})", R"({"a": 1, "b": 2})") != "");
  CHECK(complaint(R"({"dependencies": {"a": ["b"]}})", R"({"a": 1})") != "");
  const char* unevaluated = R"({"allOf": [{"properties": {"a": {}}}], "anyOf": [{"properties": {"b": {"const": 1}},
      "required": ["b"]}, {"properties": {"c": {}}}], "unevaluatedProperties": false})";
  CHECK(complaint(unevaluated, R"({"a": 1, "b": 1, "c": 2})") == "");
  CHECK(complaint(unevaluated, R"({"a": 1, "b": 2})") == "/b: no value is allowed");
  CHECK(complaint(R"({"prefixItems": [{}], "contains": {"const": 2}, "unevaluatedItems": false})", "[1, 2, 3]") ==
        "/2: no value is allowed");
  CHECK(complaint(R"({"contains": {"const": 1}, "minContains": 2})", "[1, 2]") != "");
  CHECK(complaint(R"({"contains": {"const": 1}, "minContains": 0, "maxContains": 1})", "[1, 1]") != "");
  CHECK(complaint(R"({"minimum": 3, "exclusiveMinimum": true})", "3") != "");
  CHECK(complaint(R"({"type": "string", "nullable": true})", "null") == "");
  CHECK(complaint(R"({"const": {"a": 1, "b": [2]}})", R"({"b": [2.0], "a": 1})") == "");
  CHECK(complaint(R"({"multipleOf": 0.1})", "0.3") == "");
  CHECK(complaint(R"({"maxLength": 1})", "\"é\"") == "");
  CHECK(complaint(R"({"pattern": "^(?!a)\\u0062.$"})", "\"b😀\"") == "");
  CHECK(complaint(R"x({"pattern": "^(?!a)"})x", "\"ab\"") != "");
  CHECK(complaint(R"({"$ref": "#here", "$defs": {"x": {"$anchor": "here", "type": "null"}}})", "1") != "");
  CHECK(complaint(R"({"properties": {"a": {"items": {"type": "null"}}}})", R"({"a": [null, 1]})") ==
        "/a/1: number is not allowed");
  CHECK(complaint(R"({"format": "date", "$ref": "http://x/y", "$dynamicRef": "#z", "x": 1})", "\"x\"") == "");
}

TEST_CASE("hostile schemas cost the validator no more than its limits") {
  CHECK(complaint(R"({"$ref": "#"})", "1") == "");
  CHECK(complaint(R"({"allOf": [{"$ref": "#"}, {"$ref": "#"}]})", "1") == "");
  CHECK(complaint(R"({"not": {"$ref": "#"}})", "1") == "");
  std::string doubling = R"({"$ref": "#/$defs/0", "$defs": {"60": {"type": "null"})";
  for (int i = 0; i < 60; ++i)
    doubling +=
        fmt::format(R"(,"{}": {{"allOf": [{{"$ref": "#/$defs/{}"}}, {{"$ref": "#/$defs/{}"}}]}})", i, i + 1, i + 1);
  CHECK(complaint((doubling + "}}").c_str(), "null") == "");
  const std::string text = '"' + std::string(3000, 'a') + "!\"";
  for (const char* pattern : {"^(a+)+$", "^(a|a)*$", "(a*)*b", "^((a{1,100}){1,100}){1,100}$", "(", "(?=", "[z-a]"})
    CHECK(complaint(fmt::format(R"({{"pattern": "{}"}})", pattern).c_str(), text.c_str()) != "x");
  std::string long_list = "[0";
  for (int i = 1; i < 5000; ++i) long_list += fmt::format(",{}", i);
  CHECK(complaint(R"({"uniqueItems": true})", (long_list + "]").c_str()) == "");
}
