#include "text/grammar/json_schema/json_schema_keywords.h"

#include <algorithm>

namespace ridge::text {

const std::vector<TypeKeywords>& type_keywords() {
  static const std::vector<TypeKeywords> kTypeKeywords = {
      {"object",
       {"properties", "required", "additionalProperties", "minProperties", "maxProperties", "patternProperties",
        "propertyNames", "dependentRequired", "dependentSchemas", "dependencies"}},
      {"array", {"items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains"}},
      {"string", {"minLength", "maxLength", "pattern", "format"}},
      {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}},
  };
  return kTypeKeywords;
}

bool is_enforced(const std::string& keyword) {
  static const std::set<std::string> kGeneral = {"type",  "enum", "const", "anyOf",   "oneOf",
                                                 "allOf", "$ref", "not",   "nullable"};
  return kGeneral.contains(keyword) ||
         std::ranges::any_of(type_keywords(), [&](const auto& t) { return t.keywords.contains(keyword); });
}

} // namespace ridge::text
