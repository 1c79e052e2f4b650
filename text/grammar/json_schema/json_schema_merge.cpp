#include "text/grammar/json_schema/json_schema_merge.h"

#include <algorithm>
#include <numeric>

namespace ridge::text {

namespace {

constexpr size_t kMaxAlternatives = 100;

bool contains(const std::vector<std::string>& list, const std::string& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

Json both(const Json& a, const Json& b) {
  if (a == b) return a;
  return Json{{"allOf", Json::array({a, b})}};
}

Json merge_types(const Json& a, const Json& b, const std::string& path) {
  const auto types_a = find_types(Json{{"type", a}}, path), types_b = find_types(Json{{"type", b}}, path);
  Json types = Json::array();
  const auto add = [&](const std::string& type) {
    if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
  };
  for (const std::string& type : types_a) {
    if (contains(types_b, type)) add(type);
    if (type == "number" && contains(types_b, "integer")) add("integer");
    if (type == "integer" && contains(types_b, "number")) add("integer");
  }
  if (types.empty()) fail_unsatisfiable(path, "the types exclude each other");
  return types.size() == 1 ? types[0] : types;
}

Json merge_enums(const Json& a, const Json& b, const std::string& path) {
  Json values = Json::array();
  for (const Json& value : a) {
    if (std::find(b.begin(), b.end(), value) != b.end()) values.push_back(value);
  }
  if (values.empty()) fail_unsatisfiable(path, "the enums have no value in common");
  return values;
}

// A property must satisfy what both sides say about it.
void merge_properties(Json& result, const Json& a, const Json& b, const std::string& path) {
  Json properties = Json::object();
  const auto add_from = [&](const Json& one, const Json& other) {
    const Json* mine = find_object(one, "properties", path);
    const Json* theirs = find_object(other, "properties", path);
    // A property that matches a pattern is not additional.
    const Json* more = other.contains("patternProperties") ? nullptr : find_keyword(other, "additionalProperties");
    if (mine == nullptr) return;
    for (const auto& [name, schema] : mine->items()) {
      if (properties.contains(name)) continue;
      if (theirs != nullptr && theirs->contains(name)) {
        properties[name] = both(schema, (*theirs)[name]);
      } else {
        properties[name] = more != nullptr ? both(schema, *more) : schema;
      }
    }
  };
  add_from(a, b);
  add_from(b, a);
  if (!properties.empty()) result["properties"] = std::move(properties);
  const Json *more_a = find_keyword(a, "additionalProperties"), *more_b = find_keyword(b, "additionalProperties");
  if (more_a != nullptr && more_b != nullptr) {
    result["additionalProperties"] = both(*more_a, *more_b);
  } else if (more_a != nullptr || more_b != nullptr) {
    result["additionalProperties"] = more_a != nullptr ? *more_a : *more_b;
  }
}

void append_unique(Json& list, const Json& more) {
  for (const Json& value : more) {
    if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
  }
}

Json multiply_alternatives(const Json& a, const Json& b) {
  if (a.size() * b.size() > kMaxAlternatives) return a;
  Json product = Json::array();
  for (const Json& x : a) {
    for (const Json& y : b) product.push_back(both(x, y));
  }
  return product;
}

Json merge_members(const Json& a, const Json& b) {
  Json all = a;
  for (const auto& [name, value] : b.items()) {
    if (!all.contains(name)) {
      all[name] = value;
    } else if (all[name].is_array() && value.is_array()) {
      append_unique(all[name], value);
    } else if (!all[name].is_array() && !value.is_array()) {
      all[name] = both(all[name], value);
    }
  }
  return all;
}

Json merge_items(const Json& a, const Json& b) {
  if (!a.is_array() && !b.is_array()) return both(a, b);
  if (!a.is_array() || !b.is_array()) return a;
  Json all = a.size() < b.size() ? b : a;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) all[i] = both(a[i], b[i]);
  return all;
}

Json merge_steps(const Json& a, const Json& b) {
  constexpr int64_t kMaxStep = 1'000'000;
  const auto is_step = [&](const Json& step) {
    return step.is_number_integer() && step.get<double>() > 0 && step.get<double>() <= kMaxStep;
  };
  if (!is_step(a) || !is_step(b)) return a;
  return std::lcm(a.get<int64_t>(), b.get<int64_t>());
}

Json merge_keyword(const std::string& keyword, const Json& a, const Json& b, const std::string& path) {
  const auto is = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(), [&](const char* name) { return keyword == name; });
  };
  const bool lists = a.is_array() && b.is_array(), objects = a.is_object() && b.is_object();
  if (a == b) return a;
  if (keyword == "type") return merge_types(a, b, path);
  if (keyword == "const") fail_unsatisfiable(path, "two different constants");
  if (keyword == "enum" && lists) return merge_enums(a, b, path);
  if (is({"required", "allOf"}) && lists) {
    Json list = a;
    append_unique(list, b);
    return list;
  }
  if (is({"anyOf", "oneOf"}) && lists) return multiply_alternatives(a, b);
  const bool numbers = a.is_number() && b.is_number();
  if (is({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"}) && numbers) return a < b ? b : a;
  if (is({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"}) && numbers) return a < b ? a : b;
  if (keyword == "multipleOf") return merge_steps(a, b);
  if (is({"items", "prefixItems"})) return merge_items(a, b);
  if (is({"additionalItems", "propertyNames"})) return both(a, b);
  if (is({"patternProperties", "dependentRequired", "dependentSchemas", "dependencies"}) && objects)
    return merge_members(a, b);
  if (keyword == "pattern") {
    Json list = a.is_array() ? a : Json::array({a});
    append_unique(list, b.is_array() ? b : Json::array({b}));
    return list;
  }
  return a;
}

} // namespace

void fail_unsatisfiable(const std::string& path, const std::string& message) {
  throw Unsatisfiable(fmt::format("JSON schema, {}: no value can satisfy it: {}", path, message));
}

const Json* find_keyword(const Json& schema, const char* keyword) {
  const auto found = schema.find(keyword);
  return found == schema.end() ? nullptr : &*found;
}

const Json* find_object(const Json& schema, const char* keyword, const std::string& path) {
  const Json* value = find_keyword(schema, keyword);
  if (value != nullptr && !value->is_object()) fail_schema(path, fmt::format("`{}` must be an object", keyword));
  return value;
}

const Json* find_array(const Json& schema, const char* keyword, const std::string& path) {
  const Json* value = find_keyword(schema, keyword);
  if (value != nullptr && !value->is_array()) fail_schema(path, fmt::format("`{}` must be a list", keyword));
  return value;
}

std::optional<std::string> find_string(const Json& schema, const char* keyword, const std::string& path) {
  const Json* value = find_keyword(schema, keyword);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail_schema(path, fmt::format("`{}` must be a string", keyword));
  return value->get<std::string>();
}

std::optional<uint32_t> find_count(const Json& schema, const char* keyword, const std::string& path) {
  const Json* value = find_keyword(schema, keyword);
  if (value == nullptr) return std::nullopt;
  constexpr double kMax = 1'000'000'000;
  const double count = value->is_number() ? value->get<double>() : -1;
  if (!(count >= 0)) fail_schema(path, fmt::format("`{}` must be a whole number of at least 0", keyword));
  return static_cast<uint32_t>(std::min(count, kMax));
}

std::vector<std::string> find_types(const Json& schema, const std::string& path) {
  static const std::vector<std::string> kTypes = {"object", "array", "string", "number", "integer", "boolean", "null"};
  const Json* type = find_keyword(schema, "type");
  if (type == nullptr) return {};
  std::vector<std::string> types;
  for (const Json& name : type->is_array() ? *type : Json::array({*type})) {
    if (!name.is_string() || !contains(kTypes, name.get<std::string>())) {
      fail_schema(path, fmt::format("`type` must be one or more of: {}", fmt::join(kTypes, ", ")));
    }
    types.push_back(name.get<std::string>());
  }
  if (types.empty()) fail_unsatisfiable(path, "the list of types is empty");
  return types;
}

size_t count_values(const Json& value) {
  size_t count = 1;
  if (value.is_structured()) {
    for (const Json& child : value) count += count_values(child);
  }
  return count;
}

Json merge_schemas(const Json& a, const Json& b, const std::string& path) {
  if (a == false || b == false) fail_unsatisfiable(path, "a part of it is `false`");
  if (a == true) return b;
  if (b == true) return a;
  if (!a.is_object() || !b.is_object()) fail_schema(path, "a schema must be an object, true or false");
  Json result = a;
  for (const auto& [keyword, value] : b.items()) {
    if (keyword == "properties" || keyword == "additionalProperties") continue;
    const Json* present = find_keyword(a, keyword.c_str());
    result[keyword] = present != nullptr ? merge_keyword(keyword, *present, value, path) : value;
  }
  merge_properties(result, a, b, path);
  return result;
}

} // namespace ridge::text
