// Tools with random schemas.
#pragma once

#include "core/random.h"
#include "text/calls/tool.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

namespace ridge::tests {

// RIDGE_CALL_SEEDS or `usual`.
inline uint64_t call_seeds(uint64_t usual) {
  const char* const wanted = std::getenv("RIDGE_CALL_SEEDS");
  return wanted ? std::strtoull(wanted, nullptr, 10) : usual;
}

struct Random {
  uint64_t seed, count = 0;
  size_t below(size_t n) { return core::mix_bits(core::mix_bits(seed) + ++count) % n; }
};

// Bounded, so that most answers end.
inline nlohmann::ordered_json random_schema(Random& random, int depth) {
  switch (random.below(depth > 2 ? 18 : 23)) {
  case 0: return {{"type", "integer"}};
  case 1: return {{"type", "boolean"}};
  case 2: return {{"enum", {"red", "green <b>", "blue", 7, nullptr}}};
  case 3: return {{"type", "string"}, {"minLength", random.below(3)}, {"maxLength", 3 + random.below(5)}};
  case 4: return {{"anyOf", {{{"type", "string"}, {"maxLength", 6}}, {{"type", "null"}}}}};
  case 5: return {{"type", "number"}};
  case 6: return {{"type", "integer"}, {"minimum", -20 + static_cast<int>(random.below(30))}, {"maximum", 5000}};
  case 7: return {{"type", "string"}, {"pattern", "^[a-f]{2,4}-\\d(\\.[^\\s\"]{1,2})?$"}};
  case 8: return {{"type", "string"}, {"format", random.below(2) ? "date" : "uuid"}};
  case 9: return {{"type", {"string", "null"}}, {"maxLength", 4}};
  case 10: return {{"anyOf", {{{"type", "string"}, {"maxLength", 5}}, {{"type", "integer"}, {"minimum", 100}}}}};
  case 11: return {{"type", "string"}, {"anyOf", {{{"maxLength", 2}}, {{"format", "ipv4"}}}}};
  case 12: return {{"allOf", {{{"type", "string"}, {"minLength", 2}}, {{"maxLength", 6}}}}};
  case 13: return {{"type", "string"}, {"pattern", "^[a-d]+(-[a-d]+)*$"}, {"minLength", 2}, {"maxLength", 5}};
  case 14: return {{"type", "integer"}, {"multipleOf", 3 + random.below(20)}, {"minimum", -50}};
  case 15: return {{"type", "number"}, {"exclusiveMinimum", -0.25}, {"maximum", 7.125}};
  case 16: return {{"const", {{"k", {1, "two"}}}}};
  case 17: return {{"type", "string"}, {"format", random.below(2) ? "ipv6" : "duration"}};
  case 18: return {{"type", "object"}, {"patternProperties", {{"^x[a-c]", random_schema(random, depth + 1)}}}};
  case 19:
    return {{"type", "object"},
            {"propertyNames", {{"enum", {"p", "q"}}}},
            {"additionalProperties", random_schema(random, depth + 1)}};
  case 20: {
    const size_t least = random.below(3);
    return {{"type", "array"},
            {"items", random_schema(random, depth + 1)},
            {"minItems", least},
            {"maxItems", least + random.below(3)}};
  }
  default: break;
  }
  nlohmann::ordered_json properties = nlohmann::ordered_json::object(), required = nlohmann::ordered_json::array();
  for (size_t i = random.below(4); i-- > 0;) {
    const std::string key = "k" + std::to_string(i);
    properties[key] = random_schema(random, depth + 1);
    if (random.below(2)) required.push_back(key);
  }
  nlohmann::ordered_json schema = {
      {"type", "object"}, {"properties", properties}, {"required", required}, {"additionalProperties", false}};
  if (properties.empty()) return schema;
  if (random.below(3) == 0) schema["minProperties"] = 1;
  if (random.below(3) == 0)
    schema["maxProperties"] = std::max<size_t>(required.size(), 1);
  else if (properties.size() > 1 && random.below(2))
    schema["dependentRequired"] = {{"k0", nlohmann::ordered_json::array({"k1"})}};
  return schema;
}

inline std::vector<text::Tool> random_tools(Random& random) {
  std::vector<text::Tool> tools;
  for (const char* name : {"get_weather", "add", "get"}) {
    nlohmann::ordered_json schema;
    do schema = random_schema(random, 0);
    while (!schema.contains("type") || schema["type"] != "object");
    tools.push_back({name, schema});
  }
  return tools;
}

} // namespace ridge::tests
