// The rules of values without parts: enums and constants, strings, numbers.
#include "core/strings/utf8.h"
#include "text/grammar/json_schema_merge.h"
#include "text/grammar/json_schema_primitives.h"
#include "text/grammar/json_schema_rules.h"
#include "text/grammar/json_schema_text.h"
#include "text/json/kept_number.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

namespace ridge::text {

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
    const size_t length = core::utf8_length(text);
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

// A bound as a whole number; round is std::ceil for lower bounds and std::floor for upper ones.
std::optional<int64_t> find_bound(const Json& schema, const char* keyword, const std::string& path, bool is_integer,
                                  double (*round)(double)) {
  const Json* bound = find_keyword(schema, keyword);
  if (bound == nullptr || bound->is_boolean()) return std::nullopt;
  if (!bound->is_number()) fail_schema(path, fmt::format("`{}` must be a number", keyword));
  const double value = bound->get<double>(), limit = is_integer ? 1e17 : 1e12;
  if (!(std::abs(value) <= limit))
    fail_schema(path, fmt::format("`{}` must not exceed {} in magnitude", keyword, limit));
  if (!bound->is_number_float()) return bound->get<int64_t>();
  if (!is_integer && value != std::floor(value)) {
    fail_schema(path, fmt::format("`{}` of a `number` must be whole", keyword));
  }
  return static_cast<int64_t>(round(value));
}

} // namespace

std::vector<Json> listed_values(const Json& schema, const std::string& path) {
  const auto types = find_types(schema, path);
  std::vector<Json> values;
  const Json* constant = find_keyword(schema, "const");
  const auto add = [&](const Json& value) {
    if (has_type(value, types) && keeps_bounds(value, schema, path)) values.push_back(value);
  };
  if (const Json* list = find_array(schema, "enum", path)) {
    for (const Json& value : *list) {
      if (constant == nullptr || value == *constant) add(value);
    }
  } else {
    add(*constant);
  }
  return values;
}

std::string enum_rule(GrammarRules& rules, const Json& schema, const std::string& path, const std::string& hint) {
  std::vector<std::string> values;
  std::set<std::string> seen;
  for (const Json& value : listed_values(schema, path)) {
    std::string literal = gbnf_literal(json_text(value));
    if (seen.insert(literal).second) values.push_back(std::move(literal));
  }
  if (values.empty()) fail_unsatisfiable(path, "no value is left of `enum` and `const`");
  return rules.add(hint, fmt::format("{}", fmt::join(values, " | ")));
}

std::string string_rule(GrammarRules& rules, const Json& schema, const std::string& path, const std::string& hint) {
  const std::string text = string_text(rules, schema, path, hint + "-text", {.any = rules.primitive("char")});
  return text.empty() ? rules.primitive("string") : rules.add(hint, fmt::format("\"\\\"\" {} \"\\\"\"", text));
}

std::string string_text(GrammarRules& rules, const Json& schema, const std::string& path, const std::string& hint,
                        const StringNotation& notation) {
  const auto min = find_count(schema, "minLength", path), max = find_count(schema, "maxLength", path);
  const auto pattern = find_string(schema, "pattern", path), format = find_string(schema, "format", path);
  if (min && max && *min > *max)
    fail_unsatisfiable(path, fmt::format("at least {} and at most {} characters", *min, *max));
  if (format && *format != "password") {
    const auto known = formats().find(*format);
    if (known == formats().end()) fail_schema(path, fmt::format("the format `{}` is not supported", *format));
    if (pattern) fail_schema(path, "`pattern` beside `format` is not supported");
    if (min.value_or(0) > known->second.min_length || max.value_or(~0u) < known->second.max_length) {
      fail_schema(path, fmt::format("a length that cuts the format `{}` short is not supported", *format));
    }
    return rules.primitive(*format + "-text");
  }
  if (pattern) {
    if (min.value_or(0) > 0 || max) fail_schema(path, "`minLength` and `maxLength` beside `pattern` are not supported");
    return rules.add(hint, gbnf_from_pattern(*pattern, notation, "JSON schema, " + path));
  }
  if (min.value_or(0) == 0 && !max) return "";
  return fmt::format("{}{{{},{}}}", notation.any, min.value_or(0), max ? std::to_string(*max) : "");
}

std::string number_rule(GrammarRules& rules, bool is_integer, const Json& schema, const std::string& path,
                        const std::string& hint) {
  if (const Json* step = find_keyword(schema, "multipleOf")) {
    if (!is_integer || *step != 1) fail_schema(path, "the keyword `multipleOf` is not supported");
  }
  if (const auto format = find_string(schema, "format", path)) {
    const bool is_known = *format == "int32" || *format == "int64" || *format == "float" || *format == "double";
    if (!is_known) fail_schema(path, fmt::format("the format `{}` is not supported", *format));
  }
  NumberBounds bounds;
  const auto is_true = [&](const char* keyword) { return schema.value(keyword, Json(false)) == true; }; // before 2019
  bounds.min = find_bound(schema, "minimum", path, is_integer, std::ceil);
  bounds.max = find_bound(schema, "maximum", path, is_integer, std::floor);
  bounds.min_excluded = bounds.min && is_true("exclusiveMinimum");
  bounds.max_excluded = bounds.max && is_true("exclusiveMaximum");
  // x > 2.5 and x ≥ 3 are the same for whole x, so an excluded bound is rounded the other way.
  const auto above = find_bound(schema, "exclusiveMinimum", path, is_integer, std::floor);
  const auto below = find_bound(schema, "exclusiveMaximum", path, is_integer, std::ceil);
  if (above && (!bounds.min || *above >= *bounds.min)) {
    bounds.min = above;
    bounds.min_excluded = true;
  }
  if (below && (!bounds.max || *below <= *bounds.max)) {
    bounds.max = below;
    bounds.max_excluded = true;
  }
  if (is_integer) {
    if (bounds.min_excluded) ++*bounds.min;
    if (bounds.max_excluded) --*bounds.max;
    bounds.min_excluded = bounds.max_excluded = false;
  }
  if (bounds.min && bounds.max &&
      (*bounds.min > *bounds.max || (*bounds.min == *bounds.max && (bounds.min_excluded || bounds.max_excluded)))) {
    fail_unsatisfiable(path, "the bounds leave no number");
  }
  if (!bounds.min && !bounds.max) return rules.primitive(is_integer ? "integer" : "number");
  return rules.add(hint, is_integer ? gbnf_integer_range(bounds.min, bounds.max) : gbnf_number_range(bounds));
}

} // namespace ridge::text
