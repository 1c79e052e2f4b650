#include "text/grammar/json_schema/json_schema_parts.h"

#include "text/grammar/json_schema/json_schema_keywords.h"
#include "text/grammar/json_schema/json_schema_primitives.h"

#include <algorithm>
#include <utility>

namespace ridge::text {
namespace {

constexpr size_t kMaxTriggers = 4; // each doubles the cases

} // namespace

std::set<std::string> required_names(const Json& schema, const std::string& path) {
  std::set<std::string> names;
  if (const Json* list = find_array(schema, "required", path))
    for (const Json& name : *list)
      if (name.is_string()) names.insert(name.get<std::string>());
  return names;
}

Json SchemaParts::without(const Json& schema, const char* keyword, const std::string& path) {
  rules_.count_work(count_values(schema), path);
  Json rest = schema;
  rest.erase(keyword);
  for (const char* annotation :
       {"title", "description", "default", "examples", "$defs", "definitions", "$schema", "$id"})
    rest.erase(annotation);
  return rest;
}

Json SchemaParts::merge(const Json& a, const Json& b, const std::string& path) {
  rules_.count_work(count_values(a) + count_values(b), path);
  return merge_schemas(a, b, path);
}

const Json* SchemaParts::referenced(const std::string& reference, const std::string& path) {
  if (reference != "#" && !reference.starts_with("#/")) rules_.count_work(count_values(document_), path);
  return find_reference(document_, reference);
}

Json SchemaParts::resolve(const Json& schema, const std::string& path) {
  if (!schema.is_object()) return schema;
  rules_.count_work(count_values(schema), path);
  const SchemaLevel level(nesting_, open_references_, path);
  Json result = schema;
  if (const auto reference = find_string(schema, "$ref", path)) {
    result.erase("$ref");
    const Json* target = referenced(*reference, path);
    if (target != nullptr && std::ranges::find(open_references_, *reference) == open_references_.end()) {
      open_references_.push_back(*reference);
      Json whole = resolve(*target, path);
      open_references_.pop_back();
      result = merge(whole, result, path);
    }
  }
  if (result.is_object() && result.contains("allOf")) {
    const Json parts = *find_array(result, "allOf", path);
    result.erase("allOf");
    for (const Json& part : parts) result = merge(result, resolve(part, path), path);
  }
  return result;
}

std::vector<Json> SchemaParts::branches(const Json& schema, const char* keyword, const std::string& path) {
  const Json& list = *find_array(schema, keyword, path);
  const Json base = without(schema, keyword, path);
  std::vector<Json> all;
  for (const Json& branch : list) {
    all.push_back(base.empty() ? branch : Json{{"allOf", Json::array({base, branch})}});
    rules_.count_work(count_values(all.back()), path);
  }
  return all;
}

std::optional<std::vector<Json>> SchemaParts::dependency_cases(const Json& schema, const std::string& path) {
  std::vector<std::pair<std::string, Json>> wanted;
  Json rest = schema;
  bool any = false;
  for (const char* keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const Json* all = find_object(schema, keyword, path);
    any |= all != nullptr;
    rest.erase(keyword);
    if (all == nullptr || wanted.size() + all->size() > kMaxTriggers) continue;
    for (const auto& [name, rule] : all->items())
      if (rule != Json::array()) wanted.push_back({name, rule.is_array() ? Json{{"required", rule}} : rule});
  }
  if (!any) return std::nullopt;
  std::vector<Json> cases = {std::move(rest)};
  for (const auto& [name, rule] : wanted) {
    std::vector<Json> more;
    for (const Json& one : cases) {
      if (!required_names(one, path).contains(name)) {
        Json without = one;
        if (!without.contains("properties") && !without.contains("additionalProperties") &&
            !without.contains("patternProperties"))
          without["additionalProperties"] = true; // otherwise, `properties` excludes others
        without["properties"][name] = false;
        more.push_back(std::move(without));
      }
      try {
        const Json present = {{"required", Json::array({name})}};
        more.push_back(merge(merge(one, present, path), resolve(rule, path), path));
      } catch (const Unsatisfiable&) {
      }
    }
    cases = std::move(more);
  }
  return cases;
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
  if (excludes_all(schema)) return;
  rules_.count_work(count_values(schema), path);
  const SchemaLevel level(nesting_, open_references_, path);
  if (schema.contains("$ref") || schema.contains("allOf")) {
    add_alternatives(resolve(schema, path), path, all);
  } else if (schema.contains("anyOf") || schema.contains("oneOf")) {
    for (const Json& branch : branches(schema, schema.contains("anyOf") ? "anyOf" : "oneOf", path)) {
      const size_t count = all.size();
      try {
        add_alternatives(branch, path, all);
      } catch (const Unsatisfiable&) {
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
      rules_.count_work(count_values(schema), path);
    }
  } else {
    all.push_back(Json::object());
  }
}

bool excludes_all(const Json& schema) {
  const Json* part = find_keyword(schema, "not");
  return part != nullptr && (*part == true || *part == Json::object());
}

std::vector<std::string> implied_types(const Json& schema, const std::string& path) {
  std::vector<std::string> types = find_types(schema, path);
  if (!types.empty()) return types;
  const auto implies = [&](const std::string& keyword) {
    const Json* value = find_keyword(schema, keyword.c_str());
    if (value == nullptr) return false;
    return keyword != "format" || (value->is_string() && formats().contains(value->get<std::string>()));
  };
  for (const TypeKeywords& t : type_keywords())
    if (std::ranges::any_of(t.keywords, implies)) types.push_back(t.type);
  return types;
}

} // namespace ridge::text
