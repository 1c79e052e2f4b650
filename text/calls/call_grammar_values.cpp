#include "text/calls/call_grammar_values.h"

#include "core/strings/utf8.h"
#include "text/calls/call_values.h"
#include "text/grammar/json_schema/json_schema.h"
#include "text/grammar/json_schema/json_schema_primitives.h"
#include "text/grammar/json_schema/json_schema_text.h"
#include "text/white_space.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace ridge::text {
namespace {

constexpr int kMaxDepth = 32;
constexpr size_t kMaxCountedProperties = 16; // each multiplies the rules by one more

std::vector<std::string> characters(std::string_view text) {
  std::vector<std::string> all;
  while (!text.empty())
    all.push_back(std::string(text.substr(0, core::utf8_step(text)))), text.remove_prefix(all.back().size());
  return all;
}

std::string in_class(std::string_view character) {
  if (character.size() > 1) return std::string(character);
  return fmt::format("\\x{:02X}", static_cast<unsigned char>(character[0]));
}

// The prefix of a mark before its first character recurs.
std::vector<std::string> unique_prefix(std::string_view mark) {
  std::vector<std::string> all = characters(trim(mark));
  all.erase(std::find(all.begin() + 1, all.end(), all[0]), all.end());
  return all;
}

// Whether text of this format may parse as an integer, object or list.
bool can_parse_as_json(const Json& part) {
  const Json* format = find_keyword(part, "format");
  return format == nullptr || *format == "hostname" || *format == "uri-reference" || !formats().contains(*format);
}

bool lists_values(const Json& part) { return part.contains("enum") || part.contains("const"); }

} // namespace

std::string text_without(GrammarRules& rules, std::string_view mark) {
  const std::vector<std::string> core = unique_prefix(mark);
  const std::string first = in_class(core[0]);
  std::string after; // by matched characters of the core
  for (size_t i = core.size(); i-- > 1;) {
    const std::string other = fmt::format("[^{}{}] [^{}]*", first, in_class(core[i]), first);
    after = after.empty() && i + 1 == core.size() ? fmt::format("({})?", other)
                                                  : fmt::format("({} | {} {})?", other, gbnf_literal(core[i]), after);
    after = rules.add("text-after", after);
  }
  if (core.size() == 1) return rules.add("text", fmt::format("[^{}]*", first));
  return rules.add("text", fmt::format("[^{}]* ({} {})*", first, gbnf_literal(core[0]), after));
}

std::string text_before(GrammarRules& rules, std::string_view close) {
  const std::string text = text_without(rules, close);
  if (!close.starts_with("</")) return text;
  const std::vector<std::string> core = unique_prefix(close);
  return rules.add("text-with-marks", fmt::format("{} ({} [ \\t\\r\\n]* [^< \\t\\r\\n] {})*", text,
                                                  gbnf_literal(fmt::format("{}", fmt::join(core, ""))), text));
}

std::string chain(GrammarRules& rules, const std::vector<Property>& properties, const std::string& separator,
                  const std::string& hint, const Json& counts) {
  size_t least = find_count(counts, "minProperties", "#").value_or(0);
  size_t most = find_count(counts, "maxProperties", "#").value_or(UINT32_MAX);
  const auto needed = static_cast<size_t>(std::ranges::count(properties, true, &Property::required));
  const bool possible = needed <= most && least <= std::min(most, properties.size());
  if (least <= needed || !possible || least > kMaxCountedProperties) least = 0;
  if (most >= properties.size() || !possible || most > kMaxCountedProperties) most = SIZE_MAX;
  // What may follow, by number of properties written; empty: impossible.
  std::vector<std::string> rest(1 + (most == SIZE_MAX ? std::max<size_t>(least, 1) : most));
  for (size_t written = least; written < rest.size(); ++written) rest[written] = "\"\"";
  for (size_t i = properties.size(); i-- > 0;) {
    const auto& [pair, required] = properties[i];
    const std::vector<std::string> behind = rest;
    for (size_t written = 0; written < rest.size(); ++written) {
      const size_t then = std::min(written + 1, most == SIZE_MAX ? behind.size() - 1 : most + 1);
      std::vector<std::string> ways;
      if (then < behind.size() && !behind[then].empty())
        ways.push_back(fmt::format("{} {} {}", written > 0 ? gbnf_literal(separator) : "", pair, behind[then]));
      if (!required && !behind[written].empty()) ways.push_back(behind[written]);
      rest[written] = ways.empty() ? "" : rules.add(hint + "-more", fmt::format("{}", fmt::join(ways, " | ")));
    }
  }
  return rest[0];
}

std::string ValueRules::json(const Json& schema, const std::string& hint) {
  return add_json_schema(rules_, document_, schema, hint);
}

std::string ValueRules::python(const Json& schema, const std::string& hint) {
  const std::vector<Json> parts = parts_.alternatives(schema, "#");
  const auto is = [](const Json& part, const char* type) {
    return !lists_values(part) && part.value("type", Json()) == type;
  };
  const auto is_own = [&](const Json& part) { return is(part, "boolean") || is(part, "null"); };
  if (std::ranges::none_of(parts, is_own)) return json(schema, hint);
  std::vector<std::string> written;
  for (const Json& part : parts)
    written.push_back(is(part, "boolean") ? "\"True\" | \"False\"" : is(part, "null") ? "\"None\"" : json(part, hint));
  return fmt::format("({})", fmt::join(written, " | "));
}

std::string ValueRules::raw_string(const Json& part, std::string_view close) {
  const std::string first = unique_prefix(close)[0];
  const StringNotation notation = {rules_.add("any-character", fmt::format("[^{}]", in_class(first))), false, first[0]};
  const std::string text = string_text(rules_, part, "#", "text", notation);
  return text.empty() ? text_before(rules_, close) : text;
}

// Excludes patterns, and text that the parser would read as a number, object or list where the schema allows these.
// Formats are safe.
std::string ValueRules::raw_string_unlike_json(const JsonTypes& types, const Json& part, std::string_view close) {
  if ((!types.structured && !types.number) || !can_parse_as_json(part)) return raw_string(part, close);
  const std::string end = in_class(unique_prefix(close)[0]);
  const std::string first =
      fmt::format("[^\\x20\\t\\r\\n{}{}{}]", types.structured ? "\\x5B\\x7B" : "", types.number ? "0-9\\x2D" : "", end);
  auto most = find_count(part, "maxLength", "#");
  const uint32_t most_count = rules_.detail().max_count;
  const uint32_t least = std::min(find_count(part, "minLength", "#").value_or(0), most_count);
  if (most && *most < least) fail_unsatisfiable("#", "`minLength` exceeds `maxLength`");
  if (most.value_or(0) > most_count) most.reset();
  if (most == 0u) return "\"\"";
  const std::string more = !most && least < 2 ? text_before(rules_, close)
                                              : fmt::format("[^{}]{{{},{}}}", end, std::max(least, 1u) - 1,
                                                            most ? std::to_string(*most - 1) : "");
  return fmt::format("({} {}){}", first, more, least > 0 ? "" : "?");
}

std::string ValueRules::tagged(const Json& schema, const std::string& hint, std::string_view close) {
  const JsonTypes types = json_types(schema, document_);
  if (!types.string) return json(schema, hint);
  std::vector<std::string> written;
  for (const Json& part : parts_.alternatives(schema, "#")) {
    if (lists_values(part))
      for (const Json& value : listed_values(part, "#"))
        written.push_back(gbnf_literal(value.is_string() ? value.get<std::string>() : compact_json(value)));
    else if (!part.contains("type"))
      written.push_back(text_before(rules_, close));
    else if (part["type"] == "string")
      written.push_back(raw_string_unlike_json(types, part, close));
    else
      written.push_back(json(part, hint));
  }
  if (written.empty()) fail_unsatisfiable("#", "no value is possible");
  return rules_.add(hint, fmt::format("{}", fmt::join(written, " | ")));
}

std::string ValueRules::gemma(const Json& schema, const std::string& hint, int depth) {
  if (depth >= std::min(kMaxDepth, static_cast<int>(rules_.detail().max_depth))) return gemma_anything();
  std::vector<std::string> written;
  for (const Json& part : parts_.alternatives(schema, "#"))
    for (const Json& one : parts_.dependency_cases(part, "#").value_or(std::vector{part}))
      written.push_back(gemma_part(one, hint, depth));
  if (written.empty()) fail_unsatisfiable("#", "no value is possible");
  return rules_.add(hint, fmt::format("{}", fmt::join(written, " | ")));
}

std::string ValueRules::gemma_text(const std::string& inner) const {
  return fmt::format("{} {} {}", gemma_quote_, inner, gemma_quote_);
}

std::string ValueRules::gemma_anything() {
  return fmt::format("({} | {} | {} | {})", gemma_text(text_without(rules_, kGemmaQuote)), rules_.primitive("number"),
                     rules_.primitive("boolean"), rules_.primitive("null"));
}

std::string ValueRules::gemma_literal(const Json& value) const {
  if (value.is_string()) return gemma_text(gbnf_literal(value.get<std::string>()));
  if (!value.is_structured()) return gbnf_literal(compact_json(value));
  std::vector<std::string> parts;
  for (const auto& [key, one] : value.items())
    parts.push_back((value.is_object() ? gbnf_literal(key + ":") + " " : "") + gemma_literal(one));
  return fmt::format("{} {} {}", value.is_object() ? "\"{\"" : "\"[\"", fmt::join(parts, " \",\" "),
                     value.is_object() ? "\"}\"" : "\"]\"");
}

std::string ValueRules::gemma_part(const Json& part, const std::string& hint, int depth) {
  if (lists_values(part)) {
    std::vector<std::string> values;
    for (const Json& value : listed_values(part, "#")) values.push_back(gemma_literal(value));
    if (values.empty()) fail_unsatisfiable("#", "no value satisfies both `enum` and `const`");
    return fmt::format("({})", fmt::join(values, " | "));
  }
  if (!part.contains("type")) return gemma_anything();
  if (part["type"] == "string") return gemma_text(raw_string(part, kGemmaQuote));
  if (part["type"] == "array") return gemma_array(part, hint, depth);
  if (part["type"] == "object") return gemma_object(part, hint, depth);
  return json(part, hint);
}

std::string ValueRules::gemma_array(const Json& part, const std::string& hint, int depth) {
  const uint32_t most_count = rules_.detail().max_count;
  const uint32_t least = std::min(find_count(part, "minItems", "#").value_or(0), most_count);
  auto most = find_count(part, "maxItems", "#");
  if (most.value_or(0) > most_count) most.reset();
  if (most && *most < least) fail_unsatisfiable("#", "`minItems` exceeds `maxItems`");
  if (most == 0u) return "\"[]\"";
  const Json* items = find_keyword(part, "items");
  const bool alike = items && !items->is_array() && !part.contains("prefixItems");
  const std::string item = alike ? gemma(*items, hint + "-item", depth + 1) : gemma_anything();
  const std::string more =
      fmt::format("(\",\" {}){{{},{}}}", item, least > 0 ? least - 1 : 0, most ? std::to_string(*most - 1) : "");
  return fmt::format("\"[\" ({} {}){} \"]\"", item, more, least > 0 ? "" : "?");
}

std::string ValueRules::gemma_object(const Json& part, const std::string& hint, int depth) {
  std::vector<Property> pairs;
  std::set<std::string> required;
  if (const Json* names = find_array(part, "required", "#"))
    for (const Json& name : *names) required.insert(name.is_string() ? name.get<std::string>() : "");
  const Json none = Json::object();
  const Json* properties = find_object(part, "properties", "#");
  for (const auto& [key, value] : (properties ? *properties : none).items()) {
    const bool is_required = required.erase(key) > 0;
    const size_t count = rules_.size();
    try {
      const std::string written = gemma(value, hint + "-" + key, depth + 1);
      pairs.push_back({rules_.add(hint + "-" + key + "-pair", gbnf_literal(key + ":") + " " + written), is_required});
    } catch (const Unsatisfiable&) {
      rules_.drop(count);
      if (is_required) throw;
    }
  }
  for (const std::string& key : required)
    pairs.push_back({rules_.add(hint + "-" + key + "-pair", gbnf_literal(key + ":") + " " + gemma_anything()), true});
  return fmt::format("\"{{\" {} \"}}\"", chain(rules_, pairs, ",", hint, part));
}

} // namespace ridge::text
