#include "text/calls/call_grammar_values.h"

#include "core/strings/utf8.h"
#include "text/calls/call_values.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/json_schema_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ridge::text {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr int kMaxDepth = 32;      // of Gemma's nested values
constexpr int kMaxReferences = 16; // one after the other

std::vector<std::string> characters(std::string_view text) {
  std::vector<std::string> all;
  while (!text.empty())
    all.push_back(std::string(text.substr(0, core::utf8_step(text)))), text.remove_prefix(all.back().size());
  return all;
}

std::string in_class(std::string_view character) { // as GBNF writes it between [ and ]
  if (character.size() > 1) return std::string(character);
  return fmt::format("\\x{:02X}", static_cast<unsigned char>(character[0]));
}

// The characters of a mark from its first one on, up to where that one comes again.
std::vector<std::string> core_of(std::string_view mark) {
  mark.remove_prefix(std::min(mark.find_first_not_of(kSpace), mark.size()));
  mark = mark.substr(0, mark.find_last_not_of(kSpace) + 1);
  std::vector<std::string> all = characters(mark);
  all.erase(std::find(all.begin() + 1, all.end(), all[0]), all.end());
  return all;
}

const Json* alternatives_of(const Json& schema) {
  for (const char* keyword : {"anyOf", "oneOf"})
    if (schema.is_object() && schema.contains(keyword) && schema[keyword].is_array()) return &schema[keyword];
  return nullptr;
}

// The values that a schema lists, or nothing.
std::vector<Json> listed(const Json& schema) {
  if (schema.is_object() && schema.contains("const")) return {schema["const"]};
  if (schema.is_object() && schema.contains("enum") && schema["enum"].is_array())
    return {schema["enum"].begin(), schema["enum"].end()};
  return {};
}

} // namespace

std::string text_without(GrammarRules& rules, std::string_view mark) {
  const std::vector<std::string> core = core_of(mark);
  const std::string first = in_class(core[0]);
  std::string after; // what may follow the core's first so many characters, if the core is not completed
  for (size_t i = core.size(); i-- > 1;) {
    const std::string other = fmt::format("[^{}{}] [^{}]*", first, in_class(core[i]), first);
    after = after.empty() && i + 1 == core.size() ? fmt::format("({})?", other)
                                                  : fmt::format("({} | {} {})?", other, gbnf_literal(core[i]), after);
    after = rules.add("text-after", after);
  }
  if (core.size() == 1) return rules.add("text", fmt::format("[^{}]*", first));
  return rules.add("text", fmt::format("[^{}]* ({} {})*", first, gbnf_literal(core[0]), after));
}

std::string chain(GrammarRules& rules, const std::vector<Property>& properties, const std::string& separator,
                  const std::string& hint) {
  std::string first = "\"\"", more = "\"\""; // from here on, where no property or some have been written
  for (size_t i = properties.size(); i-- > 0;) {
    const auto& [rule, required] = properties[i];
    const std::string begin = fmt::format("{} {}", rule, more);
    first = rules.add(hint + "-first", required ? begin : fmt::format("{} | {}", begin, first));
    more = rules.add(hint + "-more",
                     fmt::format("({} {}){} {}", gbnf_literal(separator), rule, required ? "" : "?", more));
  }
  return first;
}

const Json& ValueRules::resolved(const Json& schema) const {
  const Json* at = &schema;
  for (int i = 0; i < kMaxReferences && at->is_object(); ++i) {
    if (at->contains("allOf") && (*at)["allOf"].is_array() && (*at)["allOf"].size() == 1) {
      at = &(*at)["allOf"][0];
    } else if (at->contains("$ref") && (*at)["$ref"].is_string() &&
               (*at)["$ref"].get_ref<const std::string&>().starts_with("#")) {
      try {
        at = &document_.at(Json::json_pointer((*at)["$ref"].get_ref<const std::string&>().substr(1)));
      } catch (const Json::exception&) {
        fail_schema("#", fmt::format("`$ref` to {}: there is nothing at that place", compact_json((*at)["$ref"])));
      }
    } else {
      break;
    }
  }
  return *at;
}

std::string ValueRules::json(const Json& schema, const std::string& hint) const {
  return add_json_schema(rules_, document_, schema, hint);
}

std::string ValueRules::python(const Json& schema, const std::string& hint) const {
  const Json& one = resolved(schema);
  const bool plain = one.is_object() && one.contains("type") && listed(one).empty();
  if (plain && one["type"] == "boolean") return "(\"True\" | \"False\")";
  if (plain && one["type"] == "null") return "\"None\"";
  return json(schema, hint);
}

std::string ValueRules::raw_string(const Json& given, std::string_view close) const {
  const Json& schema = resolved(given);
  const std::string any = fmt::format("[^{}]", in_class(core_of(close)[0]));
  if (const std::vector<Json> values = listed(schema); !values.empty()) {
    std::vector<std::string> texts;
    for (const Json& value : values)
      if (value.is_string()) texts.push_back(gbnf_literal(value.get<std::string>()));
    return fmt::format("({})", fmt::join(texts, " | "));
  }
  if (const auto pattern = find_string(schema, "pattern", "#"))
    return rules_.add("pattern", gbnf_from_pattern(*pattern, rules_.add("any-character", any), "#/pattern"));
  if (const auto format = find_string(schema, "format", "#"))
    for (const char* known : {"date", "date-time", "time"})
      if (*format == known)
        return *format == "date-time"
                   ? fmt::format("({} \"T\" {})", rules_.primitive("date-text"), rules_.primitive("time-text"))
                   : rules_.primitive(*format + "-text");
  const auto least = find_count(schema, "minLength", "#"), most = find_count(schema, "maxLength", "#");
  if (!least && !most) return text_without(rules_, close);
  return fmt::format("{}{{{},{}}}", any, least.value_or(0), most ? std::to_string(*most) : "");
}

std::string ValueRules::tagged(const Json& given, const std::string& hint, std::string_view close) const {
  const Json& schema = resolved(given);
  const JsonTypes types = json_types(schema, document_);
  if (!types.string) return json(given, hint);
  if (types.any() && !alternatives_of(schema)) return text_without(rules_, close);
  std::vector<std::string> alternatives;
  for (const Json& value : listed(schema))
    alternatives.push_back(gbnf_literal(value.is_string() ? value.get<std::string>() : compact_json(value)));
  if (const Json* parts = alternatives.empty() ? alternatives_of(schema) : nullptr)
    for (const Json& part : *parts)
      if (!types.structured || !json_types(part, document_).only_string())
        alternatives.push_back(tagged(part, hint, close));
  if (alternatives.empty() && types.only_string()) return raw_string(schema, close);
  if (alternatives.empty()) // a list of types
    for (const Json& type : schema["type"]) {
      Json part = schema;
      part["type"] = type;
      if (type != "string" || !types.structured)
        alternatives.push_back(type == "string" ? raw_string(part, close) : json(part, hint));
    }
  // Text that begins like an object or a list would be read as one.
  if (types.structured)
    alternatives.push_back(
        fmt::format("([^\\x5B\\x7B\\x20\\t\\r\\n{}] {})?", in_class(core_of(close)[0]), text_without(rules_, close)));
  return rules_.add(hint, fmt::format("{}", fmt::join(alternatives, " | ")));
}

std::string ValueRules::gemma(const Json& given, const std::string& hint, int depth) const {
  const Json& schema = resolved(given);
  if (depth > kMaxDepth) fail_schema("#", fmt::format("nested deeper than {}", kMaxDepth));
  const auto text = [&](const std::string& inner) {
    return fmt::format("{} {} {}", gemma_quote_, inner, gemma_quote_);
  };
  const std::string free_text = text(text_without(rules_, kGemmaQuote));
  std::vector<std::string> alternatives;
  for (const Json& value : listed(schema)) {
    if (value.is_structured()) fail_schema("#", "this model's calls cannot list objects or arrays as values");
    alternatives.push_back(value.is_string() ? text(gbnf_literal(value.get<std::string>()))
                                             : gbnf_literal(compact_json(value)));
  }
  if (const Json* parts = alternatives.empty() ? alternatives_of(schema) : nullptr)
    for (const Json& part : *parts) alternatives.push_back(gemma(part, hint, depth + 1));
  if (!alternatives.empty()) return rules_.add(hint, fmt::format("{}", fmt::join(alternatives, " | ")));

  std::vector<std::string> names = schema.is_object() ? find_types(schema, "#") : std::vector<std::string>();
  if (names.empty() && schema.is_object() && schema.contains("properties")) names = {"object"};
  if (names.empty()) names = {"string", "number", "boolean", "null"};
  for (const std::string& type : names) {
    Json part = schema.is_object() ? schema : Json::object();
    part["type"] = type;
    if (type == "string") {
      alternatives.push_back(text(raw_string(part, kGemmaQuote)));
    } else if (type == "array") {
      const Json* items = find_keyword(part, "items");
      const std::string item = items ? gemma(*items, hint + "-item", depth + 1) : free_text;
      const uint32_t least = find_count(part, "minItems", "#").value_or(0);
      const auto most = find_count(part, "maxItems", "#");
      if (most == 0u) {
        alternatives.push_back("\"[]\"");
        continue;
      }
      const std::string more =
          fmt::format("(\",\" {}){{{},{}}}", item, least > 0 ? least - 1 : 0, most ? std::to_string(*most - 1) : "");
      alternatives.push_back(fmt::format("\"[\" ({} {}){} \"]\"", item, more, least > 0 ? "" : "?"));
    } else if (type == "object") {
      std::vector<Property> pairs;
      const Json* properties = find_object(part, "properties", "#");
      const Json* required = find_array(part, "required", "#");
      const Json none = Json::object();
      for (const auto& [key, value] : (properties ? *properties : none).items())
        pairs.push_back({rules_.add(hint + "-" + key + "-pair",
                                    gbnf_literal(key + ":") + " " + gemma(value, hint + "-" + key, depth + 1)),
                         required && std::ranges::find(*required, Json(key)) != required->end()});
      alternatives.push_back(fmt::format("\"{{\" {} \"}}\"", chain(rules_, pairs, ",", hint)));
    } else {
      alternatives.push_back(json(part, hint));
    }
  }
  return rules_.add(hint, fmt::format("{}", fmt::join(alternatives, " | ")));
}

} // namespace ridge::text
