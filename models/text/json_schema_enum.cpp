// Which values of an enum or const the keywords beside it leave.
#include "models/text/json_schema_merge.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace ridge::models::text {

namespace {

bool has_type(const Json& value, const std::vector<std::string>& types) {
  const auto is = [&](const char* type) { return std::find(types.begin(), types.end(), type) != types.end(); };
  if (types.empty()) return true;
  if (value.is_object()) return is("object");
  if (value.is_array()) return is("array");
  if (value.is_string()) return is("string");
  if (value.is_boolean()) return is("boolean");
  if (value.is_null()) return is("null");
  return is("number") || (is("integer") && (!value.is_number_float() || value == std::floor(value.get<double>())));
}

// Whether an enumerated value keeps the keywords beside it.
bool keeps_bounds(const Json& value, const Json& schema, const std::string& path) {
  if (value.is_string()) {
    for (const char* keyword : {"pattern", "format"}) {
      if (schema.contains(keyword)) fail_schema(path, fmt::format("`{}` beside `enum` is not supported", keyword));
    }
    const auto text = value.get<std::string>();
    const auto is_lead = [](char c) { return (c & 0xc0) != 0x80; };
    const auto length = std::count_if(text.begin(), text.end(), is_lead); // in characters
    return length >= find_count(schema, "minLength", path).value_or(0) &&
           length <= find_count(schema, "maxLength", path).value_or(~0u);
  }
  if (value.is_structured()) {
    for (const char* keyword : {"properties", "required", "additionalProperties", "minProperties", "maxProperties",
                                "items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems"}) {
      if (schema.contains(keyword)) fail_schema(path, fmt::format("`{}` beside `enum` is not supported", keyword));
    }
  }
  if (!value.is_number()) return true;
  if (schema.contains("multipleOf")) fail_schema(path, "`multipleOf` beside `enum` is not supported");
  const auto holds = [&](const char* keyword, auto compare) {
    const Json* bound = find_keyword(schema, keyword);
    return bound == nullptr || !bound->is_number() || compare(value.get<double>(), bound->get<double>());
  };
  return holds("minimum", std::greater_equal<>()) && holds("maximum", std::less_equal<>()) &&
         holds("exclusiveMinimum", std::greater<>()) && holds("exclusiveMaximum", std::less<>());
}

} // namespace

bool is_allowed_value(const Json& value, const Json& schema, const std::string& path) {
  return has_type(value, find_types(schema, path)) && keeps_bounds(value, schema, path);
}

} // namespace ridge::models::text
