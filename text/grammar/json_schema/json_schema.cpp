#include "text/grammar/json_schema/json_schema.h"

#include "text/grammar/json_schema/json_schema_converter.h"
#include "text/grammar/json_schema/json_schema_keywords.h"
#include "text/grammar/json_schema/json_schema_text.h"

#include <algorithm>

namespace ridge::text {

namespace {
constexpr uint32_t kUnlimited = ~0u;
}

std::string SchemaConverter::convert(const Json& schema, const std::string& hint) {
  if (rules_.detail().max_depth == 0) return write_types(schema);
  return visit_part(schema, "#", hint);
}

std::string SchemaConverter::visit(const Json& schema, const std::string& path, const std::string& hint) {
  rules_.count_work(1, path);
  const SchemaLevel level(nesting_, open_references_, path);
  return visit_any(schema, path, hint);
}

void SchemaConverter::forget(size_t rule_count) {
  rules_.drop(rule_count);
  std::erase_if(rule_of_reference_, [&](const auto& entry) { return entry.second >= rule_count; });
}

std::string SchemaConverter::visit_part(const Json& schema, const std::string& path, const std::string& hint) {
  const auto rule = visit_optional(schema, path, hint);
  if (rule) return *rule;
  if (rules_.detail().strict) fail_unsatisfiable(path, "no value is possible");
  return write_types(schema);
}

std::optional<std::string> SchemaConverter::visit_optional(const Json& schema, const std::string& path,
                                                           const std::string& hint) {
  if (depth_ >= rules_.detail().max_depth) return write_types(schema);
  const size_t rule_count = rules_.size();
  const Part part(*this);
  try {
    return visit(schema, path, hint);
  } catch (const Unsatisfiable&) { // rules may refer to unwritten ones
    forget(rule_count);
    return std::nullopt;
  }
}

std::string SchemaConverter::write_types(const Json& schema) {
  const Json* type = schema.is_object() ? find_keyword(schema, "type") : nullptr;
  const bool known = type != nullptr && type->is_string() && !schema.contains("nullable");
  return rules_.primitive(known ? find_types(schema, "#")[0] : "value");
}

std::string SchemaConverter::visit_any(const Json& schema, const std::string& path, const std::string& hint) {
  if (schema == true) return rules_.primitive("value");
  if (schema == false) fail_unsatisfiable(path, "it is `false`");
  if (!schema.is_object()) fail_schema(path, "a schema must be an object, true or false");
  if (excludes_all(schema)) fail_unsatisfiable(path, "it is `not` anything");
  if (schema.contains("$ref")) return visit_reference(schema, path, hint);
  if (const Json* parts = find_array(schema, "allOf", path)) {
    Json merged = parts_.without(schema, "allOf", path);
    for (const Json& part : *parts) merged = parts_.merge(merged, parts_.resolve(part, path), path);
    return visit(merged, path, hint);
  }
  for (const char* keyword : {"anyOf", "oneOf"}) {
    if (!schema.contains(keyword)) continue;
    Schemas schemas;
    for (Json& branch : parts_.branches(schema, keyword, path))
      schemas.push_back({std::move(branch), fmt::format("{}/{}/{}", path, keyword, schemas.size())});
    return visit_alternatives(schemas, hint);
  }
  if (schema.value("nullable", Json(false)) == true) {
    Json null_too = parts_.without(schema, "nullable", path);
    return visit_alternatives({{null_too, path}, {Json{{"type", "null"}}, path}}, hint);
  }
  if (schema.contains("const") || schema.contains("enum")) return enum_rule(rules_, schema, path, hint);
  return visit_types(schema, path, hint);
}

std::string SchemaConverter::visit_reference(const Json& schema, const std::string& path, const std::string& hint) {
  const std::string reference = *find_string(schema, "$ref", path);
  const Json rest = parts_.without(schema, "$ref", path);
  const bool has_siblings =
      std::any_of(rest.items().begin(), rest.items().end(), [](const auto& entry) { return is_enforced(entry.key()); });
  if (has_siblings) return visit(parts_.resolve(schema, path), path, hint);
  const Json* target = parts_.referenced(reference, path);
  const bool is_open = std::ranges::find(open_references_, reference) != open_references_.end();
  if (target == nullptr || is_open) return rules_.primitive("value"); // dangling or circular
  const auto known = rule_of_reference_.find(reference);
  if (known != rule_of_reference_.end()) return rules_.name(known->second);
  const size_t index = rules_.reserve("ref-" + reference.substr(reference.find_last_of("/#") + 1));
  rule_of_reference_[reference] = index;
  const std::string name = rules_.name(index);
  open_references_.push_back(reference);
  rules_.define(index, visit(*target, reference, name));
  return name;
}

std::string SchemaConverter::visit_alternatives(const Schemas& schemas, const std::string& hint) {
  std::vector<std::string> expressions;
  std::set<std::string> seen;
  std::string complaint;
  for (const auto& [schema, path] : schemas) {
    const size_t rule_count = rules_.size();
    try {
      const std::string expression = visit(schema, path, fmt::format("{}-{}", hint, expressions.size()));
      if (seen.insert(expression).second) expressions.push_back(expression);
    } catch (const Unsatisfiable& error) {
      forget(rule_count);
      complaint = error.what();
    }
  }
  if (expressions.empty()) throw Unsatisfiable(complaint);
  if (expressions.size() == 1) return expressions[0];
  return rules_.add(hint, fmt::format("{}", fmt::join(expressions, " | ")));
}

std::string SchemaConverter::visit_types(const Json& schema, const std::string& path, const std::string& hint) {
  const std::vector<std::string> types = implied_types(schema, path);
  if (types.empty()) return rules_.primitive("value");
  if (types.size() == 1) return visit_type(types[0], schema, path, hint);
  Schemas schemas;
  for (const std::string& type : types) {
    schemas.push_back({parts_.without(schema, "type", path), path});
    schemas.back().first["type"] = type;
  }
  return visit_alternatives(schemas, hint);
}

std::string SchemaConverter::visit_type(const std::string& type, const Json& schema, const std::string& path,
                                        const std::string& hint) {
  if (type == "object") return visit_object(schema, path, hint);
  if (type == "array") return visit_array(schema, path, hint);
  if (type == "string") return string_rule(rules_, schema, path, hint);
  if (type == "integer" || type == "number") return number_rule(rules_, type == "integer", schema, path, hint);
  return rules_.primitive(type);
}

std::string SchemaConverter::visit_array(const Json& schema, const std::string& path, const std::string& hint) {
  const Json* items = find_keyword(schema, "items");
  const Json* prefix = find_array(schema, "prefixItems", path);
  const char* rest_keyword = "items";
  if (items != nullptr && items->is_array()) { // form before 2020
    prefix = items;
    rest_keyword = "additionalItems";
    items = find_keyword(schema, rest_keyword);
  }
  const uint32_t most_count = rules_.detail().max_count;
  const uint32_t min = std::min(find_count(schema, "minItems", path).value_or(0), most_count);
  uint32_t max = find_count(schema, "maxItems", path).value_or(kUnlimited);
  if (max > most_count) max = kUnlimited;
  const auto prefix_size = static_cast<uint32_t>(prefix != nullptr ? prefix->size() : 0);
  std::vector<std::string> prefix_rules;
  for (uint32_t i = 0; i < prefix_size && i < max; ++i) {
    const char* keyword = prefix == find_keyword(schema, "items") ? "items" : "prefixItems";
    const auto rule =
        visit_optional((*prefix)[i], fmt::format("{}/{}/{}", path, keyword, i), fmt::format("{}-{}", hint, i));
    if (rule)
      prefix_rules.push_back(*rule);
    else
      max = i;
  }
  const std::string space = rules_.primitive("space");
  std::string rest;
  if (max > prefix_size) {
    const Json anything = true;
    const auto rule =
        visit_optional(items != nullptr ? *items : anything, child_path(path, rest_keyword), hint + "-item");
    if (rule)
      rest = *rule;
    else
      max = prefix_size;
  }
  if (min > max) fail_unsatisfiable(path, fmt::format("at least {} and at most {} items", min, max));

  // Built from the last item; `tail` may follow an item.
  std::string tail;
  if (!rest.empty()) {
    const uint32_t at_least = min > std::max(prefix_size, 1u) ? min - std::max(prefix_size, 1u) : 0;
    const std::string at_most = max == kUnlimited ? "" : std::to_string(max - std::max(prefix_size, 1u));
    tail = fmt::format("(\",\" {} {}){{{},{}}}", space, rest, at_least, at_most);
  }
  std::string body;
  if (prefix_rules.empty()) {
    body = rest.empty() ? "" : fmt::format("{} {}", rest, tail);
  } else {
    for (size_t i = prefix_rules.size(); i-- > 1;) {
      const std::string more = fmt::format("\",\" {} {} {}", space, prefix_rules[i], tail);
      tail = rules_.add(fmt::format("{}-from-{}", hint, i), i < min ? more : fmt::format("({})?", more));
    }
    body = fmt::format("{} {}", prefix_rules[0], tail);
  }
  if (!body.empty()) body = min > 0 ? fmt::format("{} {}", body, space) : fmt::format("({} {})?", body, space);
  return rules_.add(hint, fmt::format("\"[\" {} {} \"]\"", space, body));
}

std::string gbnf_from_json_schema(const Json& schema) {
  const Json cleaned = clean_schema(schema);
  for (size_t detail = 0;; ++detail) {
    GrammarRules rules(detail);
    const std::string root = rules.write_schema(
        count_values(cleaned), [&] { return SchemaConverter(cleaned, rules).convert(cleaned, "root"); });
    std::string gbnf = rules.text(root);
    try {
      Grammar::parse(gbnf);
      return gbnf;
    } catch (const core::Error&) {
      if (detail + 1 == schema_details().size()) throw;
    }
  }
}

std::string add_json_schema(GrammarRules& rules, const Json& document, const Json& schema, const std::string& hint) {
  return SchemaConverter(document, rules).convert(schema, hint);
}

} // namespace ridge::text
