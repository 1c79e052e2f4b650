// Walks a schema and writes one grammar rule per part of it. Rules with the same body are written once.
#include "text/grammar/json_schema.h"

#include "text/grammar/json_schema_keywords.h"
#include "text/grammar/json_schema_parts.h"
#include "text/grammar/json_schema_rules.h"
#include "text/grammar/json_schema_text.h"

#include <algorithm>
#include <map>
#include <set>

namespace ridge::text {

namespace {

std::string child(const std::string& path, const std::string& key) {
  std::string escaped; // as in a JSON pointer
  for (const char c : key) escaped += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return path + "/" + escaped;
}

class Converter {
 public:
  Converter(const Json& document, GrammarRules& rules) : parts_(document), rules_(rules) {}

  std::string convert(const Json& schema, const std::string& hint) { return visit(schema, "#", hint); }

 private:
  // Drops the rules of an unsatisfiable alternative, because some may refer to rules that were never written.
  void drop_rules(size_t count, const std::string& path) {
    parts_.count_work(rules_.size(), path);
    rules_.drop(count);
    std::erase_if(rule_of_reference_, [&](const auto& entry) { return entry.second >= count; });
  }

  // An expression for the schema that can stand anywhere in a rule: a name or something in parentheses.
  std::string visit(const Json& schema, const std::string& path, const std::string& hint) {
    parts_.count_work(1, path);
    if (++nesting_ > kMaxSchemaDepth) fail_schema(path, "its parts refer to each other too deeply");
    std::string result = visit_any(schema, path, hint);
    --nesting_;
    return result;
  }

  // A part of a value. Inside it, the references that are open outside no longer mean endless recursion.
  std::string visit_part(const Json& schema, const std::string& path, const std::string& hint) {
    std::vector<std::string> outer;
    outer.swap(open_references_);
    std::string result = visit(schema, path, hint);
    outer.swap(open_references_);
    return result;
  }

  std::string visit_any(const Json& schema, const std::string& path, const std::string& hint) {
    if (schema == true) return rules_.primitive("value");
    if (schema == false) fail_unsatisfiable(path, "it is `false`");
    if (!schema.is_object()) fail_schema(path, "a schema must be an object, true or false");
    check_keywords(schema, path);
    if (schema.contains("$ref")) return visit_reference(schema, path, hint);
    if (const Json* parts = find_array(schema, "allOf", path)) {
      Json merged = parts_.without(schema, "allOf", path);
      for (const Json& part : *parts) merged = parts_.merge(merged, parts_.resolve(part, path), path);
      return visit(merged, path, hint);
    }
    for (const char* keyword : {"anyOf", "oneOf"}) {
      if (!schema.contains(keyword)) continue;
      std::vector<std::pair<Json, std::string>> schemas;
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

  std::string visit_reference(const Json& schema, const std::string& path, const std::string& hint) {
    const std::string reference = *find_string(schema, "$ref", path);
    const Json rest = parts_.without(schema, "$ref", path);
    const bool has_siblings = std::any_of(rest.items().begin(), rest.items().end(),
                                          [](const auto& entry) { return !is_annotation(entry.key()); });
    if (has_siblings) return visit(parts_.resolve(schema, path), path, hint);
    if (std::find(open_references_.begin(), open_references_.end(), reference) != open_references_.end()) {
      fail_schema(path, fmt::format("`$ref` to `{}` leads back to itself", reference));
    }
    const Json& target = parts_.referenced(reference, path);
    const auto known = rule_of_reference_.find(reference);
    if (known != rule_of_reference_.end()) return rules_.name(known->second);
    const size_t index = rules_.reserve("ref-" + reference.substr(reference.find_last_of("/#") + 1));
    rule_of_reference_[reference] = index;
    const std::string name = rules_.name(index);
    open_references_.push_back(reference);
    rules_.define(index, visit(target, reference, name));
    open_references_.pop_back();
    return name;
  }

  std::string visit_alternatives(const std::vector<std::pair<Json, std::string>>& schemas, const std::string& hint) {
    std::vector<std::string> expressions;
    std::set<std::string> seen;
    std::string complaint;
    for (const auto& [schema, path] : schemas) {
      const size_t rule_count = rules_.size(), nesting = nesting_;
      const auto open_references = open_references_;
      try {
        const std::string expression = visit(schema, path, fmt::format("{}-{}", hint, expressions.size()));
        if (seen.insert(expression).second) expressions.push_back(expression);
      } catch (const Unsatisfiable& error) {
        drop_rules(rule_count, path);
        nesting_ = nesting;
        open_references_ = open_references;
        complaint = error.what();
      }
    }
    if (expressions.empty()) throw Unsatisfiable(complaint);
    if (expressions.size() == 1) return expressions[0];
    return rules_.add(hint, fmt::format("{}", fmt::join(expressions, " | ")));
  }

  std::string visit_types(const Json& schema, const std::string& path, const std::string& hint) {
    const std::vector<std::string> types = implied_types(schema, path);
    if (types.empty()) return rules_.primitive("value");
    if (types.size() == 1) return visit_type(types[0], schema, path, hint);
    std::vector<std::pair<Json, std::string>> schemas;
    for (const std::string& type : types) {
      schemas.push_back({parts_.without(schema, "type", path), path});
      schemas.back().first["type"] = type;
    }
    return visit_alternatives(schemas, hint);
  }

  std::string visit_type(const std::string& type, const Json& schema, const std::string& path,
                         const std::string& hint) {
    if (type == "object") return visit_object(schema, path, hint);
    if (type == "array") return visit_array(schema, path, hint);
    if (type == "string") return string_rule(rules_, schema, path, hint);
    if (type == "integer" || type == "number") return number_rule(rules_, type == "integer", schema, path, hint);
    return rules_.primitive(type);
  }

  // Objects. The declared properties form a chain of rules: `first-i` where none has been written yet, `more-i` where a
  // comma is due; optional ones can be passed over.
  std::string visit_object(const Json& schema, const std::string& path, const std::string& hint) {
    static const Json kNone = Json::object();
    const Json* declared = find_object(schema, "properties", path);
    const Json* additional = find_keyword(schema, "additionalProperties");
    const bool may_have_more = additional != nullptr ? *additional != false : declared == nullptr;
    std::set<std::string> required;
    if (const Json* names = find_array(schema, "required", path)) {
      for (const Json& name : *names) {
        if (!name.is_string()) fail_schema(path, "`required` must list names");
        required.insert(name.get<std::string>());
      }
    }

    struct Property {
      std::string pair; // the rule of "name": value
      bool is_required;
    };
    std::vector<Property> properties;
    std::set<std::string> names;
    const auto add_property = [&](const std::string& name, const Json& value, const std::string& at) {
      names.insert(name);
      const bool is_required = required.erase(name) > 0;
      const size_t rule_count = rules_.size(), nesting = nesting_;
      const auto open_references = open_references_;
      try {
        const std::string key = gbnf_literal(Json(name).dump(-1, ' ', false, Json::error_handler_t::replace));
        const std::string rule = visit_part(value, at, hint + "-" + name);
        properties.push_back(
            {rules_.add(hint + "-" + name + "-kv", fmt::format("{} \":\" {} {}", key, rules_.primitive("space"), rule)),
             is_required});
      } catch (const Unsatisfiable&) {
        if (is_required) throw;
        drop_rules(rule_count, path); // it must be absent
        nesting_ = nesting;
        open_references_ = open_references;
      }
    };
    for (const auto& [name, value] : (declared != nullptr ? *declared : kNone).items()) {
      add_property(name, value, child(child(path, "properties"), name));
    }
    const Json anything = true;
    const Json& more = additional != nullptr ? *additional : anything;
    for (const std::string& name : std::set<std::string>(required)) {
      if (!may_have_more) fail_unsatisfiable(path, fmt::format("the required property `{}` is not allowed", name));
      add_property(name, more, child(path, "additionalProperties"));
    }
    check_property_counts(schema, path, properties.size(), may_have_more,
                          static_cast<size_t>(std::count_if(properties.begin(), properties.end(),
                                                            [](auto& p) { return p.is_required; })));

    const std::string space = rules_.primitive("space");
    std::string first, after; // what may stand where no property, or some, have been written
    if (may_have_more) {
      const std::string value = visit_part(more, child(path, "additionalProperties"), hint + "-additional");
      const std::string pair =
          rules_.add(hint + "-additional-kv",
                     fmt::format("\"\\\"\" {} \"\\\"\" \":\" {} {}", other_key(rules_, names, hint), space, value));
      after = fmt::format("(\",\" {} {})*", space, pair);
      first = fmt::format("({} {})?", pair, after);
    }
    const auto first_required = static_cast<size_t>(
        std::find_if(properties.begin(), properties.end(), [](auto& p) { return p.is_required; }) - properties.begin());
    if (first_required < properties.size()) first.clear();
    for (size_t i = properties.size(); i-- > 0;) {
      const auto& [pair, is_required] = properties[i];
      if (i <= first_required) {
        const std::string begin = fmt::format("{} {}", pair, after);
        const std::string later = first.empty() ? fmt::format("({})?", begin) : fmt::format("{} | {}", begin, first);
        first = rules_.add(hint + "-first", is_required ? begin : later);
      }
      if (i == 0) break;
      after = rules_.add(hint + "-more", fmt::format("(\",\" {} {}){} {}", space, pair, is_required ? "" : "?", after));
    }
    return rules_.add(hint, first.empty() ? fmt::format("\"{{\" {} \"}}\"", space)
                                          : fmt::format("\"{{\" {} {} {} \"}}\"", space, first, space));
  }

  void check_property_counts(const Json& schema, const std::string& path, size_t declared, bool may_have_more,
                             size_t required) const {
    const auto min = find_count(schema, "minProperties", path), max = find_count(schema, "maxProperties", path);
    if (min && *min > required) {
      fail_schema(path, "`minProperties` beyond the number of required properties is not supported");
    }
    if (max && (may_have_more || *max < declared)) {
      fail_schema(path, "`maxProperties` below the number of possible properties is not supported");
    }
  }

  std::string visit_array(const Json& schema, const std::string& path, const std::string& hint) {
    if (schema.value("uniqueItems", Json(false)) != false)
      fail_schema(path, "the keyword `uniqueItems` is not supported");
    const Json* items = find_keyword(schema, "items");
    const Json* prefix = find_array(schema, "prefixItems", path);
    const char* rest_keyword = "items";
    if (items != nullptr && items->is_array()) { // as schemas before 2020 wrote it
      prefix = items;
      rest_keyword = "additionalItems";
      items = find_keyword(schema, rest_keyword);
    }
    const uint32_t min = find_count(schema, "minItems", path).value_or(0);
    std::optional<uint32_t> max = find_count(schema, "maxItems", path);
    const auto prefix_size = static_cast<uint32_t>(prefix != nullptr ? prefix->size() : 0);
    std::vector<std::string> prefix_rules;
    for (uint32_t i = 0; i < prefix_size && (!max || i < *max); ++i) {
      prefix_rules.push_back(visit_part(
          (*prefix)[i],
          fmt::format("{}/{}/{}", path, prefix == find_keyword(schema, "items") ? "items" : "prefixItems", i),
          fmt::format("{}-{}", hint, i)));
    }
    const std::string space = rules_.primitive("space");
    std::string rest; // the rule for items beyond the prefix
    if (items == nullptr || *items != false) {
      if (!max || *max > prefix_size) {
        rest = items == nullptr ? rules_.primitive("value")
                                : visit_part(*items, child(path, rest_keyword), hint + "-item");
      }
    } else if (!max || *max > prefix_size) {
      max = prefix_size;
    }
    if (max && min > *max) fail_unsatisfiable(path, fmt::format("at least {} and at most {} items", min, *max));

    // From the last item to the first: `tail` is what may follow an item.
    std::string tail;
    if (!rest.empty()) {
      const uint32_t at_least = min > std::max(prefix_size, 1u) ? min - std::max(prefix_size, 1u) : 0;
      const std::string at_most = max ? std::to_string(*max - std::max(prefix_size, 1u)) : "";
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

  SchemaParts parts_;
  GrammarRules& rules_;
  std::map<std::string, size_t> rule_of_reference_; // by $ref
  std::vector<std::string> open_references_;        // followed since the last part of a value was entered
  size_t nesting_ = 0;
};

} // namespace

std::string gbnf_from_json_schema(const Json& schema) {
  GrammarRules rules;
  const std::string root = Converter(schema, rules).convert(schema, "root");
  return rules.text(root);
}

std::string add_json_schema(GrammarRules& rules, const Json& document, const Json& schema, const std::string& hint) {
  return Converter(document, rules).convert(schema, hint);
}

} // namespace ridge::text
