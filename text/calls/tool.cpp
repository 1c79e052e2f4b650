#include "text/calls/tool.h"

#include "core/random.h"
#include "text/schema/schema.h"

#include <algorithm>

namespace ridge::text {
namespace {

using Json = nlohmann::ordered_json;
constexpr JsonTypes kAll = {true, true, true, true, true};
constexpr int kMaxReferences = 16; // per schema; deeper ones may be anything
constexpr int kMaxSchemas = 5000;  // visited; others may be anything

JsonTypes unite(JsonTypes a, JsonTypes b) {
  return {a.string || b.string, a.number || b.number, a.boolean || b.boolean, a.null || b.null,
          a.structured || b.structured};
}

JsonTypes meet(JsonTypes a, JsonTypes b) {
  return {a.string && b.string, a.number && b.number, a.boolean && b.boolean, a.null && b.null,
          a.structured && b.structured};
}

JsonTypes named(const Json& type) {
  if (type == "string") return {.string = true};
  if (type == "object" || type == "array") return {.structured = true};
  if (type == "boolean") return {.boolean = true};
  if (type == "null") return {.null = true};
  return {.number = true};
}

JsonTypes type_of(const Json& value) {
  return {value.is_string(), value.is_number(), value.is_boolean(), value.is_null(), value.is_structured()};
}

JsonTypes types_of(const Json& schema, const Json& document, int depth, int& left) {
  if (!schema.is_object() || depth > kMaxReferences || --left < 0) return kAll;
  JsonTypes types = kAll;
  const auto has_list = [&](const char* keyword) { return schema.contains(keyword) && schema[keyword].is_array(); };
  if (schema.contains("type")) {
    types = {};
    const Json& type = schema["type"];
    if (!type.is_array())
      types = named(type);
    else
      for (const Json& one : type) types = unite(types, named(one));
  }
  if (has_list("enum")) {
    JsonTypes values;
    for (const Json& value : schema["enum"]) values = unite(values, type_of(value));
    types = meet(types, values);
  }
  if (schema.contains("const")) types = meet(types, type_of(schema["const"]));
  for (const char* keyword : {"anyOf", "oneOf"})
    if (has_list(keyword)) {
      JsonTypes either;
      for (const Json& part : schema[keyword]) either = unite(either, types_of(part, document, depth + 1, left));
      types = meet(types, either);
    }
  if (has_list("allOf"))
    for (const Json& part : schema["allOf"]) types = meet(types, types_of(part, document, depth + 1, left));
  if (schema.contains("$ref") && schema["$ref"].is_string()) {
    const std::string reference = schema["$ref"];
    if (reference != "#" && !reference.starts_with("#/")) left -= kMaxSchemas / 4;
    if (const Json* target = find_reference(document, reference))
      types = meet(types, types_of(*target, document, depth + 1, left));
  }
  if (schema.contains("nullable") && schema["nullable"] == true) types.null = true;
  return types;
}

} // namespace

bool is_tool_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxToolName && std::ranges::all_of(name, is_name_char);
}

JsonTypes json_types(const Json& schema, const Json& document) {
  int left = kMaxSchemas;
  return types_of(schema, document, 0, left);
}

std::string make_call_id(uint64_t seed, size_t number, int length) {
  constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr int kLength = 16;
  std::string id = length > 0 ? "" : "call_";
  for (int i = 0; i < (length > 0 ? length : kLength); ++i)
    id += kDigits[core::mix_bits(core::mix_bits(seed + number) + static_cast<uint64_t>(i)) % kDigits.size()];
  return id;
}

} // namespace ridge::text
