#include "text/grammar/json_schema_parts.h"

#include "text/grammar/json_schema_keywords.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace ridge::text {

namespace {

constexpr size_t kMaxNesting = 200;
constexpr size_t kMaxWork = 2'000'000;

} // namespace

// All that is done with a document, copies of parts included, recurses over it.
SchemaParts::SchemaParts(const Json& document) : document_(document) {
  std::vector<std::pair<const Json*, size_t>> open = {{&document_, 1}};
  while (!open.empty()) {
    const auto [value, depth] = open.back();
    open.pop_back();
    if (depth > kMaxNesting) fail_schema("#", fmt::format("nested deeper than {}", kMaxNesting));
    if (!value->is_structured()) continue;
    for (const Json& part : *value) open.push_back({&part, depth + 1});
  }
}

void SchemaParts::count_work(size_t amount, const std::string& path) {
  work_ += amount;
  if (work_ > kMaxWork) fail_schema(path, "the schema is too large once its parts are combined");
}

Json SchemaParts::without(const Json& schema, const char* keyword, const std::string& path) {
  count_work(count_values(schema), path);
  Json rest = schema;
  rest.erase(keyword);
  for (const char* annotation :
       {"title", "description", "default", "examples", "$defs", "definitions", "$schema", "$id"})
    rest.erase(annotation);
  return rest;
}

Json SchemaParts::merge(const Json& a, const Json& b, const std::string& path) {
  count_work(count_values(a) + count_values(b), path);
  return merge_schemas(a, b, path);
}

const Json& SchemaParts::referenced(const std::string& reference, const std::string& path) const {
  if (!reference.starts_with("#")) {
    fail_schema(path,
                fmt::format("`$ref` to `{}`: only references within the document (#/…) are supported", reference));
  }
  std::string pointer;
  for (size_t i = 1; i < reference.size(); ++i) {
    const auto hex = [&](size_t at) {
      return at < reference.size() && std::isxdigit(static_cast<unsigned char>(reference[at]));
    };
    if (reference[i] == '%' && hex(i + 1) && hex(i + 2)) {
      pointer += static_cast<char>(std::stoi(reference.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      pointer += reference[i];
    }
  }
  try {
    return document_.at(Json::json_pointer(pointer));
  } catch (const nlohmann::ordered_json::exception&) {
    fail_schema(path, fmt::format("`$ref` to `{}`: there is nothing at that place", reference));
  }
}

Json SchemaParts::resolve(const Json& schema, const std::string& path) {
  if (!schema.is_object()) return schema;
  count_work(count_values(schema), path);
  if (++nesting_ > kMaxSchemaDepth) fail_schema(path, "it refers to itself");
  Json result = schema;
  if (const auto reference = find_string(schema, "$ref", path)) {
    result.erase("$ref");
    result = merge(resolve(referenced(*reference, path), path), result, path);
  }
  if (result.is_object() && result.contains("allOf")) {
    const Json parts = *find_array(result, "allOf", path);
    result.erase("allOf");
    for (const Json& part : parts) result = merge(result, resolve(part, path), path);
  }
  --nesting_;
  return result;
}

std::vector<Json> SchemaParts::branches(const Json& schema, const char* keyword, const std::string& path) {
  const Json& list = *find_array(schema, keyword, path);
  if (list.empty()) fail_schema(path, fmt::format("`{}` must not be empty", keyword));
  const Json base = without(schema, keyword, path);
  std::vector<Json> all;
  for (const Json& branch : list) {
    all.push_back(base.empty() ? branch : Json{{"allOf", Json::array({base, branch})}});
    count_work(count_values(all.back()), path);
  }
  return all;
}

std::vector<Json> SchemaParts::alternatives(const Json& schema, const std::string& path) {
  std::vector<Json> all;
  add_alternatives(schema, path, all);
  return all;
}

void SchemaParts::add_alternatives(const Json& schema, const std::string& path, std::vector<Json>& all) {
  if (schema == false) return;
  if (schema == true) return all.push_back(Json::object());
  if (!schema.is_object()) fail_schema(path, "a schema must be an object, true or false");
  check_keywords(schema, path);
  count_work(count_values(schema), path);
  if (++nesting_ > kMaxSchemaDepth) fail_schema(path, "it refers to itself");
  if (schema.contains("$ref") || schema.contains("allOf")) {
    add_alternatives(resolve(schema, path), path, all);
  } else if (schema.contains("anyOf") || schema.contains("oneOf")) {
    for (const Json& branch : branches(schema, schema.contains("anyOf") ? "anyOf" : "oneOf", path)) {
      const size_t nesting = nesting_, count = all.size();
      try {
        add_alternatives(branch, path, all);
      } catch (const Unsatisfiable&) {
        nesting_ = nesting;
        all.resize(count);
      }
    }
  } else if (schema.value("nullable", Json(false)) == true) {
    add_alternatives(without(schema, "nullable", path), path, all);
    all.push_back({{"type", "null"}});
  } else if (schema.contains("const") || schema.contains("enum")) {
    all.push_back(schema);
  } else if (const std::vector<std::string> types = implied_types(schema, path); !types.empty()) {
    for (const std::string& type : types) {
      all.push_back(schema);
      all.back()["type"] = type;
      count_work(count_values(schema), path);
    }
  } else {
    all.push_back(Json::object());
  }
  --nesting_;
}

std::vector<std::string> implied_types(const Json& schema, const std::string& path) {
  std::vector<std::string> types = find_types(schema, path);
  if (!types.empty()) return types;
  for (const TypeKeywords& t : type_keywords())
    if (std::ranges::any_of(t.keywords, [&](const auto& keyword) { return schema.contains(keyword); }))
      types.push_back(t.type);
  return types;
}

} // namespace ridge::text
