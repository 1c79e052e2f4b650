#include "text/schema/schema.h"

#include "text/json/kept_number.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

namespace ridge::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxSchemaNesting = 200;

enum class Form { schema, schemas, schema_or_schemas, named_schemas, dependencies, names_by_name, anything, other };

// Kinds of subschemas.
Form form_of(std::string_view keyword) {
  static const std::vector<std::pair<Form, std::vector<std::string_view>>> kForms = {
      {Form::schema,
       {"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "not", "propertyNames",
        "then", "unevaluatedItems", "unevaluatedProperties"}},
      {Form::schemas, {"allOf", "anyOf", "oneOf", "prefixItems"}},
      {Form::schema_or_schemas, {"items"}},
      {Form::named_schemas, {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}},
      {Form::dependencies, {"dependencies"}},
      {Form::names_by_name, {"dependentRequired"}},
      {Form::anything, {"const", "default", "example", "examples", "nullable"}},
  };
  for (const auto& [form, keywords] : kForms)
    if (std::ranges::find(keywords, keyword) != keywords.end()) return form;
  return Form::other;
}

bool is_type(const Json& name) {
  static constexpr std::array kTypes = {"object", "array", "string", "number", "integer", "boolean", "null"};
  return std::ranges::any_of(kTypes, [&](const char* type) { return name == type; });
}

bool are_names(const Json& list) {
  return list.is_array() && std::ranges::all_of(list, [](const Json& name) { return name.is_string(); });
}

// Later passes recurse over the schema.
void check_nesting(const Json& schema) {
  std::vector<std::pair<const Json*, size_t>> open = {{&schema, 1}};
  while (!open.empty()) {
    const auto [value, depth] = open.back();
    open.pop_back();
    if (depth > kMaxSchemaNesting) fail_schema("#", fmt::format("nested deeper than {}", kMaxSchemaNesting));
    if (!value->is_structured()) continue;
    for (const Json& part : *value) open.push_back({&part, depth + 1});
  }
}

class Cleaner {
 public:
  void clean(Json& schema) {
    open_.push_back({&schema, "#"});
    while (!open_.empty()) {
      const Place place = open_.back();
      open_.pop_back();
      clean_one(*place.schema, place.path);
    }
  }

 private:
  struct Place {
    Json* schema;
    std::string path;
  };

  void clean_one(Json& schema, const std::string& path) {
    if (schema.is_boolean()) return;
    if (!schema.is_object()) fail_schema(path, "a schema must be an object, true or false");
    std::vector<std::string> removed;
    for (const auto& [keyword, value] : schema.items()) {
      const bool is_flag = keyword == "required" && value.is_boolean(); // draft 3
      if ((value.is_null() && form_of(keyword) != Form::anything) || is_flag) removed.push_back(keyword);
    }
    for (const std::string& keyword : removed) schema.erase(keyword);
    for (auto& entry : schema.items()) {
      check_value(entry.key(), entry.value(), path);
      open_parts(entry.key(), entry.value(), path);
    }
  }

  void open_parts(const std::string& keyword, Json& value, const std::string& path) {
    const Form form = form_of(keyword);
    const std::string at = child_path(path, keyword);
    if (form == Form::schema || (form == Form::schema_or_schemas && !value.is_array())) open_.push_back({&value, at});
    if (form == Form::schemas || (form == Form::schema_or_schemas && value.is_array()))
      for (size_t i = 0; i < value.size(); ++i) open_.push_back({&value[i], fmt::format("{}/{}", at, i)});
    if (form == Form::named_schemas || form == Form::dependencies)
      for (auto& entry : value.items())
        if (form == Form::named_schemas || !are_names(entry.value()))
          open_.push_back({&entry.value(), child_path(at, entry.key())});
  }

  static void check_value(const std::string& keyword, const Json& value, const std::string& path) {
    const auto is = [&](std::initializer_list<std::string_view> names) {
      return std::ranges::find(names, keyword) != names.end();
    };
    const auto require = [&](bool holds, const char* what) {
      if (!holds) fail_schema(path, fmt::format("`{}` must be {}", keyword, what));
    };
    const Form form = form_of(keyword);
    if (form == Form::schemas) require(value.is_array(), "a list of schemas");
    if (is({"allOf", "anyOf", "oneOf"}) && value.empty())
      fail_schema(path, fmt::format("`{}` must not be empty", keyword));
    if (form == Form::named_schemas || form == Form::dependencies) require(value.is_object(), "an object");
    if (form == Form::names_by_name)
      require(value.is_object() && std::ranges::all_of(value, are_names), "an object of lists of names");
    if (keyword == "required") require(are_names(value), "a list of names");
    if (keyword == "enum") require(value.is_array(), "a list");
    if (keyword == "type") check_types(value, path);
    if (is({"pattern", "format", "$ref"})) require(value.is_string(), "a string");
    if (keyword == "uniqueItems") require(value.is_boolean(), "true or false");
    if (is({"minimum", "maximum"})) require(value.is_number(), "a number");
    if (is({"exclusiveMinimum", "exclusiveMaximum"})) require(value.is_number() || value.is_boolean(), "a number");
    if (keyword == "multipleOf") require(value.is_number() && value.get<double>() > 0, "a number above 0");
    if (is({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains",
            "maxContains"})) {
      const double count = value.is_number() ? value.get<double>() : -1;
      require(count >= 0 && count == std::floor(count), "a whole number of at least 0");
    }
  }

  static void check_types(const Json& type, const std::string& path) {
    const bool valid = type.is_array() ? std::ranges::all_of(type, is_type) : is_type(type);
    if (!valid)
      fail_schema(path, "`type` must be one or more of: object, array, string, number, integer, boolean, null");
  }

  std::vector<Place> open_;
};

std::string percent_decoded(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto is_hex = [&](size_t at) {
      return at < text.size() && std::isxdigit(static_cast<unsigned char>(text[at]));
    };
    if (text[i] == '%' && is_hex(i + 1) && is_hex(i + 2)) {
      plain += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// Part with this value of a keyword.
const Json* find_named(const Json& document, std::initializer_list<const char*> keywords, const std::string& name) {
  std::vector<const Json*> open = {&document};
  while (!open.empty()) {
    const Json& part = *open.back();
    open.pop_back();
    if (part.is_object())
      for (const char* keyword : keywords)
        if (const auto found = part.find(keyword); found != part.end() && *found == name) return &part;
    if (part.is_structured())
      for (const Json& inner : part) open.push_back(&inner);
  }
  return nullptr;
}

} // namespace

void fail_schema(const std::string& path, const std::string& message) {
  throw core::Error(fmt::format("JSON schema, {}: {}", path, message));
}

std::string child_path(const std::string& path, const std::string& key) {
  std::string escaped;
  for (const char c : key) escaped += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return path + "/" + escaped;
}

Json clean_schema(const Json& schema) {
  check_nesting(schema);
  Json cleaned = with_doubles(schema);
  Cleaner().clean(cleaned);
  return cleaned;
}

const Json* find_reference(const Json& document, const std::string& reference) {
  if (!reference.starts_with("#")) {
    const size_t fragment = reference.find('#');
    const Json* part = find_named(document, {"$id", "id"}, reference.substr(0, fragment));
    if (part == nullptr || fragment == std::string::npos) return part;
    return find_reference(*part, reference.substr(fragment));
  }
  const std::string pointer = percent_decoded(reference.substr(1));
  if (!pointer.empty() && pointer[0] != '/') return find_named(document, {"$anchor", "$dynamicAnchor"}, pointer);
  try {
    return &document.at(Json::json_pointer(pointer));
  } catch (const Json::exception&) {
    return nullptr;
  }
}

} // namespace ridge::text
