// Tools whose schemas are random, for tests that let random models call them.
#pragma once

#include "core/random.h"
#include "text/calls/tool.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

namespace ridge::tests {

// How many sets of tools a test tries: RIDGE_CALL_SEEDS, or what it usually does.
inline uint64_t call_seeds(uint64_t usual) {
  const char* const wanted = std::getenv("RIDGE_CALL_SEEDS");
  return wanted ? std::strtoull(wanted, nullptr, 10) : usual;
}

// Whether a value fits a schema of those below.
inline bool fits(const nlohmann::ordered_json& value, const nlohmann::ordered_json& schema) {
  if (schema.contains("anyOf"))
    return std::ranges::any_of(schema["anyOf"], [&](const nlohmann::ordered_json& part) { return fits(value, part); });
  if (schema.contains("enum")) return std::ranges::find(schema["enum"], value) != schema["enum"].end();
  const std::string type = schema["type"];
  if (type == "object") {
    if (!value.is_object()) return false;
    for (const nlohmann::ordered_json& name : schema.value("required", nlohmann::ordered_json::array()))
      if (!value.contains(name.get<std::string>())) return false;
    for (const auto& [key, one] : value.items())
      if (!schema["properties"].contains(key) || !fits(one, schema["properties"][key])) return false;
    return true;
  }
  if (type == "array") {
    return value.is_array() && value.size() <= schema.value("maxItems", size_t{1000}) &&
           std::ranges::all_of(value, [&](const nlohmann::ordered_json& one) { return fits(one, schema["items"]); });
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

inline nlohmann::ordered_json random_schema(Random& random, int depth) {
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
  nlohmann::ordered_json properties = nlohmann::ordered_json::object(), required = nlohmann::ordered_json::array();
  for (size_t i = random.below(4); i-- > 0;) {
    const std::string key = "k" + std::to_string(i);
    properties[key] = random_schema(random, depth + 1);
    if (random.below(2)) required.push_back(key);
  }
  return {{"type", "object"}, {"properties", properties}, {"required", required}};
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
