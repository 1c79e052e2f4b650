// Objects: declared, patterned and further properties, and their number.
#include "text/grammar/json_schema/json_schema_converter.h"
#include "text/grammar/json_schema/json_schema_text.h"

#include <algorithm>

namespace ridge::text {
namespace {

constexpr size_t kMaxNamePatterns = 4; // each doubles the name sets
constexpr size_t kMaxListedNames = 500;
constexpr size_t kMaxCountedRules = 5000;

Json all_of(const std::vector<Json>& schemas) {
  if (schemas.size() == 1) return schemas[0];
  return Json{{"allOf", schemas}};
}

} // namespace

// The declared properties form a chain of rules: `first-i` before any property, `more-i` after one.
std::string SchemaConverter::visit_object(const Json& schema, const std::string& path, const std::string& hint) {
  if (const auto cases = parts_.dependency_cases(schema, path)) {
    Schemas all;
    for (const Json& one : *cases) all.push_back({one, path});
    return visit_alternatives(all, hint);
  }
  static const Json kNone = Json::object();
  const Json* declared = find_object(schema, "properties", path);
  const Json* additional = find_keyword(schema, "additionalProperties");
  Object object;
  if (additional != nullptr) object.additional = *additional;
  read_patterns(object, schema, path);
  const bool may_be_open = declared == nullptr && object.patterns.empty() && !object.open;
  object.open |= additional != nullptr ? *additional != false : may_be_open;
  const bool is_closed = additional != nullptr && *additional == false;
  const auto listed = read_names(object, schema, path);

  std::set<std::string> required = required_names(schema, path);
  for (const auto& [name, value] : (declared != nullptr ? *declared : kNone).items()) {
    const bool allowed = listed ? listed->contains(name) : !object.allowed || object.allowed->contains(name);
    add_property(object, name, allowed ? schema_of(object, name, &value) : Json(false), required.erase(name) > 0,
                 child_path(child_path(path, "properties"), name), hint);
  }
  if (listed)
    for (const std::string& name : *listed)
      if (!object.names.contains(name) && may_be_there(object, name))
        add_property(object, name, schema_of(object, name, nullptr), required.erase(name) > 0,
                     child_path(path, "additionalProperties"), hint);
  for (const std::string& name : required) {
    const bool allowed =
        !listed && (!is_closed || may_be_there(object, name)) && (!object.allowed || object.allowed->contains(name));
    if (!allowed && rules_.detail().strict)
      fail_unsatisfiable(path, fmt::format("the required property `{}` is not allowed", name));
    if (allowed)
      add_property(object, name, schema_of(object, name, nullptr), true, child_path(path, "additionalProperties"),
                   hint);
  }
  if (!listed) object.more = write_more(object, path, hint);

  const auto needed = static_cast<size_t>(std::ranges::count(object.properties, true, &Property::required));
  const auto min = find_count(schema, "minProperties", path).value_or(0);
  const auto max = find_count(schema, "maxProperties", path);
  const bool counts = min > needed || (max && (!object.more.empty() || *max < object.properties.size()));
  const std::string members =
      counts ? write_counted_members(object, min, max, path, hint) : write_members(object, hint);
  const std::string space = rules_.primitive("space");
  return rules_.add(hint, members.empty() ? fmt::format("\"{{\" {} \"}}\"", space)
                                          : fmt::format("\"{{\" {} {} {} \"}}\"", space, members, space));
}

void SchemaConverter::read_patterns(Object& object, const Json& schema, const std::string& path) {
  const Json* patterns = find_object(schema, "patternProperties", path);
  if (patterns == nullptr) return;
  for (const auto& [pattern, value] : patterns->items()) {
    try {
      if (object.patterns.size() >= kMaxNamePatterns) throw_error("there are too many");
      object.patterns.push_back({StringSet(parse_string_pattern(pattern)), value});
    } catch (const core::Error&) { // names cannot be distinguished
      object.open = true;
      object.additional = true;
    }
  }
}

std::optional<std::set<std::string>> SchemaConverter::read_names(Object& object, const Json& schema,
                                                                 const std::string& path) {
  const Json* given = find_keyword(schema, "propertyNames");
  if (given == nullptr) return std::nullopt;
  std::set<std::string> listed;
  const std::vector<Json> alternatives = parts_.alternatives(*given, child_path(path, "propertyNames"));
  std::vector<Json> others;
  for (const Json& one : alternatives) {
    if (!one.contains("enum") && !one.contains("const")) {
      if (one.empty() || one.value("type", Json()) == "string") others.push_back(one);
      continue;
    }
    for (const Json& name : listed_values(one, path))
      if (name.is_string()) listed.insert(name.get<std::string>());
  }
  if (others.empty() && listed.size() <= kMaxListedNames) return listed;
  if (others.size() != 1 || !listed.empty()) return std::nullopt;
  try {
    object.allowed = string_set(others[0], path);
  } catch (const Unsatisfiable&) {
    return std::set<std::string>();
  } catch (const core::Error&) {
  }
  return std::nullopt;
}

bool SchemaConverter::may_be_there(const Object& object, const std::string& name) const {
  return object.open ||
         std::ranges::any_of(object.patterns, [&](const NamePattern& pattern) { return pattern.names.contains(name); });
}

// Merges the declaration of a name with matching patterns.
Json SchemaConverter::schema_of(const Object& object, const std::string& name, const Json* declared) const {
  std::vector<Json> all;
  if (declared != nullptr) all.push_back(*declared);
  for (const NamePattern& pattern : object.patterns)
    if (pattern.names.contains(name)) all.push_back(pattern.schema);
  if (all.empty()) all.push_back(object.additional == false ? Json(true) : object.additional);
  return all_of(all);
}

void SchemaConverter::add_property(Object& object, const std::string& name, const Json& value, bool required,
                                   const std::string& path, const std::string& hint) {
  object.names.insert(name);
  const std::string key = gbnf_literal(Json(name).dump(-1, ' ', false, Json::error_handler_t::replace));
  const std::string part_hint = hint + "-" + name;
  std::optional<std::string> rule = visit_optional(value, path, part_hint);
  if (!rule && !required) return;
  if (!rule && rules_.detail().strict) fail_unsatisfiable(path, "a required property has no possible value");
  if (!rule) rule = write_types(value);
  const std::string body = fmt::format("{} \":\" {} {}", key, rules_.primitive("space"), *rule);
  object.properties.push_back({rules_.add(part_hint + "-kv", body), required});
}

// One schema per set of matching patterns.
std::string SchemaConverter::write_more(const Object& object, const std::string& path, const std::string& hint) {
  if (object.patterns.empty() && !object.allowed)
    return object.open ? write_any_name(object, object.additional, path, hint) : "";
  const size_t rule_count = rules_.size();
  try {
    const std::vector<std::string> names(object.names.begin(), object.names.end());
    StringSet others = StringSet::of_texts(names).complement();
    if (object.allowed) others = others.both(*object.allowed);
    std::vector<std::string> pairs;
    for (size_t chosen = object.open ? 0 : 1; chosen < size_t{1} << object.patterns.size(); ++chosen) {
      StringSet set = others;
      std::vector<Json> values;
      for (size_t i = 0; i < object.patterns.size(); ++i) {
        const bool matches = (chosen >> i & 1) != 0;
        set = set.both(matches ? object.patterns[i].names : object.patterns[i].names.complement());
        if (matches) values.push_back(object.patterns[i].schema);
      }
      if (set.empty()) continue;
      const Json value = chosen == 0 ? object.additional : all_of(values);
      const auto rule = visit_optional(value, child_path(path, "patternProperties"), hint + "-pattern");
      if (!rule) continue;
      const std::string key = gbnf_from_set(rules_, set, {.any = rules_.primitive("char")}, hint + "-name");
      pairs.push_back(fmt::format("\"\\\"\" {} \"\\\"\" \":\" {} {}", key, rules_.primitive("space"), *rule));
    }
    return pairs.empty() ? "" : rules_.add(hint + "-more-kv", fmt::format("{}", fmt::join(pairs, " | ")));
  } catch (const Unsatisfiable&) {
    throw;
  } catch (const core::Error&) {
    forget(rule_count);
    return write_any_name(object, true, path, hint);
  }
}

std::string SchemaConverter::write_any_name(const Object& object, const Json& value, const std::string& path,
                                            const std::string& hint) {
  const auto rule = visit_optional(value, child_path(path, "additionalProperties"), hint + "-additional");
  if (!rule) return "";
  return rules_.add(hint + "-additional-kv",
                    fmt::format("\"\\\"\" {} \"\\\"\" \":\" {} {}", other_key(rules_, object.names, hint),
                                rules_.primitive("space"), *rule));
}

std::string SchemaConverter::write_members(const Object& object, const std::string& hint) {
  const std::string space = rules_.primitive("space");
  const auto& properties = object.properties;
  std::string first, after;
  if (!object.more.empty()) {
    after = fmt::format("(\",\" {} {})*", space, object.more);
    first = fmt::format("({} {})?", object.more, after);
  }
  const auto first_required =
      static_cast<size_t>(std::ranges::find(properties, true, &Property::required) - properties.begin());
  if (first_required < properties.size()) first.clear();
  for (size_t i = properties.size(); i-- > 0;) {
    const auto& [pair, required] = properties[i];
    if (i <= first_required) {
      const std::string begin = fmt::format("{} {}", pair, after);
      const std::string later = first.empty() ? fmt::format("({})?", begin) : fmt::format("{} | {}", begin, first);
      first = rules_.add(hint + "-first", required ? begin : later);
    }
    if (i == 0) break;
    after = rules_.add(hint + "-more", fmt::format("(\",\" {} {}){} {}", space, pair, required ? "" : "?", after));
  }
  return first;
}

// One rule per property and number of preceding properties, while that number matters.
std::string SchemaConverter::write_counted_members(const Object& object, uint32_t min, std::optional<uint32_t> max,
                                                   const std::string& path, const std::string& hint) {
  const auto& properties = object.properties;
  const size_t most_counted = max ? std::max(*max, min) : min;
  if (max && *max < min) fail_unsatisfiable(path, fmt::format("at least {} and at most {} properties", min, *max));
  if (most_counted > rules_.detail().max_count || (properties.size() + 1) * (most_counted + 1) > kMaxCountedRules)
    return write_members(object, hint);
  const std::string space = rules_.primitive("space");
  const auto comma = [&](size_t before) { return before > 0 ? fmt::format("\",\" {} ", space) : std::string(); };
  std::vector<std::optional<std::string>> next(most_counted + 1);
  for (size_t before = 0; before <= most_counted; ++before) {
    const size_t least = min > before ? min - before : 0;
    if (object.more.empty() || (max && *max == before)) {
      if (least == 0) next[before] = "\"\"";
      continue;
    }
    const std::string most = max ? std::to_string(*max - before - (before == 0 ? 1 : 0)) : "";
    const size_t more = before == 0 && least > 0 ? least - 1 : least;
    const std::string rest = fmt::format("(\",\" {} {}){{{},{}}}", space, object.more, more, most);
    next[before] = before > 0   ? rest
                   : least == 0 ? fmt::format("({} {})?", object.more, rest)
                                : fmt::format("({} {})", object.more, rest);
  }
  for (size_t i = properties.size(); i-- > 0;) {
    std::vector<std::optional<std::string>> here(most_counted + 1);
    for (size_t before = 0; before <= most_counted; ++before) {
      std::vector<std::string> ways;
      const size_t after = max || before < most_counted ? before + 1 : before;
      if (after <= most_counted && next[after])
        ways.push_back(fmt::format("{}{} {}", comma(before), properties[i].pair, *next[after]));
      if (!properties[i].required && next[before]) ways.push_back(*next[before]);
      if (!ways.empty()) here[before] = rules_.add(hint + "-counted", fmt::format("{}", fmt::join(ways, " | ")));
    }
    next = std::move(here);
  }
  if (!next[0]) fail_unsatisfiable(path, "no number of properties is possible");
  return *next[0];
}

} // namespace ridge::text
