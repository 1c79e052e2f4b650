// Validates JSON by a schema, independent of the grammar generator. Rejects unchecked keywords.
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>

namespace ridge::tests {

class JsonValidator {
 public:
  using Json = nlohmann::ordered_json;

  explicit JsonValidator(const Json& document) : document_(document) {}

  bool accepts(const Json& value) const { return valid(value, document_); }

 private:
  bool valid(const Json& value, const Json& schema) const {
    if (schema.is_boolean()) return schema.get<bool>();
    return std::ranges::all_of(schema.items(), [&](const auto& entry) {
      check_known(entry.key());
      return holds(value, schema, entry.key(), entry.value());
    });
  }

  static void check_known(const std::string& keyword) {
    static const std::set<std::string> kKnown = {"$defs",
                                                 "$ref",
                                                 "title",
                                                 "description",
                                                 "default",
                                                 "type",
                                                 "enum",
                                                 "const",
                                                 "anyOf",
                                                 "oneOf",
                                                 "allOf",
                                                 "properties",
                                                 "required",
                                                 "patternProperties",
                                                 "propertyNames",
                                                 "minProperties",
                                                 "maxProperties",
                                                 "dependentRequired",
                                                 "items",
                                                 "minItems",
                                                 "maxItems",
                                                 "additionalProperties",
                                                 "minLength",
                                                 "maxLength",
                                                 "pattern",
                                                 "format",
                                                 "minimum",
                                                 "maximum",
                                                 "exclusiveMinimum",
                                                 "prefixItems",
                                                 "exclusiveMaximum",
                                                 "multipleOf"};
    if (!kKnown.contains(keyword)) throw std::logic_error("the tests' validator has no keyword " + keyword);
  }

  bool holds(const Json& value, const Json& schema, const std::string& keyword, const Json& rule) const {
    const auto fits = [&](const Json& part) { return valid(value, part); };
    if (keyword == "$ref") return fits(document_.at(Json::json_pointer(rule.get<std::string>().substr(1))));
    if (keyword == "type") {
      if (!rule.is_array()) return has_type(value, rule);
      return std::ranges::any_of(rule, [&](const Json& type) { return has_type(value, type); });
    }
    if (keyword == "enum") return std::ranges::find(rule, value) != rule.end();
    if (keyword == "const") return value == rule;
    if (keyword == "anyOf" || keyword == "oneOf") return std::ranges::any_of(rule, fits);
    if (keyword == "allOf") return std::ranges::all_of(rule, fits);
    if (value.is_object()) return object_holds(value, schema, keyword, rule);
    if (value.is_array()) return array_holds(value, schema, keyword, rule);
    if (value.is_string()) return string_holds(value, keyword, rule);
    if (value.is_number()) return number_holds(value, keyword, rule);
    return true;
  }

  static bool has_type(const Json& value, const std::string& type) {
    if (type == "integer") return value.is_number() && value.get<double>() == std::floor(value.get<double>());
    if (type == "number") return value.is_number();
    return type == value.type_name() || (type == "null" && value.is_null());
  }

  bool object_holds(const Json& value, const Json& schema, const std::string& keyword, const Json& rule) const {
    bool holds = true;
    if (keyword == "properties") {
      for (const auto& [name, part] : rule.items()) holds &= !value.contains(name) || valid(value[name], part);
    } else if (keyword == "patternProperties") {
      for (const auto& [pattern, part] : rule.items())
        for (const auto& [name, member] : value.items()) holds &= !matches(name, pattern) || valid(member, part);
    } else if (keyword == "additionalProperties") {
      const Json declared = schema.value("properties", Json::object());
      const Json patterns = schema.value("patternProperties", Json::object());
      for (const auto& [name, part] : value.items()) {
        bool further = !declared.contains(name);
        for (const auto& entry : patterns.items()) further &= !matches(name, entry.key());
        holds &= !further || valid(part, rule);
      }
    } else if (keyword == "propertyNames") {
      for (const auto& entry : value.items()) holds &= valid(entry.key(), rule);
    } else if (keyword == "minProperties") {
      holds = value.size() >= rule.get<size_t>();
    } else if (keyword == "maxProperties") {
      holds = value.size() <= rule.get<size_t>();
    } else if (keyword == "dependentRequired") {
      for (const auto& [name, others] : rule.items())
        for (const Json& other : others) holds &= !value.contains(name) || value.contains(other.get<std::string>());
    } else if (keyword == "required") {
      for (const Json& name : rule) holds &= value.contains(name.get<std::string>());
    }
    return holds;
  }

  bool array_holds(const Json& value, const Json& schema, const std::string& keyword, const Json& rule) const {
    bool holds = true;
    if (keyword == "items") {
      const size_t from = schema.value("prefixItems", Json::array()).size();
      for (size_t i = from; i < value.size(); ++i) holds &= valid(value[i], rule);
    } else if (keyword == "prefixItems") {
      for (size_t i = 0; i < std::min(value.size(), rule.size()); ++i) holds &= valid(value[i], rule[i]);
    } else if (keyword == "minItems") {
      holds = value.size() >= rule.get<size_t>();
    } else if (keyword == "maxItems") {
      holds = value.size() <= rule.get<size_t>();
    }
    return holds;
  }

  static bool string_holds(const Json& value, const std::string& keyword, const Json& rule) {
    static const std::map<std::string, std::string> kFormats = {
        {"date", "\\d{4}-(0[1-9]|1[0-2])-([0-2]\\d|3[01])"},
        {"date-time", "\\d{4}-\\d\\d-\\d\\d[Tt]\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?([Zz]|[+-]\\d\\d:\\d\\d)"},
        {"uuid", "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
        {"email", "[^@\\s]+@(([A-Za-z0-9-]+\\.)*[A-Za-z0-9-]+|\\[[0-9.]+\\])"},
        {"uri", "[A-Za-z][A-Za-z0-9+.-]*:[^\\s\"<>\\\\^`{}|]*"},
        {"ipv4", "((25[0-5]|2[0-4]\\d|1?\\d?\\d)(\\.|$)){4}"}};
    if (keyword == "minLength") return characters(value).size() >= rule.get<size_t>();
    if (keyword == "maxLength") return characters(value).size() <= rule.get<size_t>();
    if (keyword == "pattern") return matches(value, rule);
    if (keyword != "format") return true;
    const auto format = kFormats.find(rule);
    return format == kFormats.end() || std::regex_match(value.get<std::string>(), std::regex(format->second));
  }

  static bool matches(const std::string& text, const std::string& pattern) {
    return std::regex_search(characters(text), std::wregex(characters(pattern)));
  }

  static bool number_holds(const Json& value, const std::string& keyword, const Json& rule) {
    const auto number = value.get<double>();
    if (keyword == "minimum") return number >= rule.get<double>();
    if (keyword == "maximum") return number <= rule.get<double>();
    if (keyword == "exclusiveMinimum") return number > rule.get<double>();
    if (keyword == "exclusiveMaximum") return number < rule.get<double>();
    if (keyword == "multipleOf") {
      if (value.is_number_unsigned() && rule.is_number_integer())
        return value.get<uint64_t>() % rule.get<uint64_t>() == 0;
      if (value.is_number_integer() && rule.is_number_integer()) return value.get<int64_t>() % rule.get<int64_t>() == 0;
      const double times = number / rule.get<double>();
      return std::abs(times - std::round(times)) < 1e-6;
    }
    return true;
  }

  // One element per character, because std::regex and length limits would count bytes. The UTF-8 is valid.
  static std::wstring characters(const std::string& utf8) {
    std::wstring result;
    for (const char c : utf8) {
      const auto byte = static_cast<unsigned char>(c);
      if ((byte & 0xC0) == 0x80)
        result.back() = static_cast<wchar_t>(result.back() << 6 | (byte & 0x3F));
      else
        result += static_cast<wchar_t>(byte < 0x80   ? byte
                                       : byte < 0xE0 ? byte & 0x1F
                                       : byte < 0xF0 ? byte & 0xF
                                                     : byte & 7);
    }
    return result;
  }

  const Json& document_;
};

inline bool is_valid(const nlohmann::ordered_json& value, const nlohmann::ordered_json& schema) {
  return JsonValidator(schema).accepts(value);
}

} // namespace ridge::tests
