#include "text/grammar/json_schema_keywords.h"

#include <algorithm>

namespace ridge::text {

const std::vector<TypeKeywords>& type_keywords() {
  static const std::vector<TypeKeywords> kTypeKeywords = {
      {"object", {"properties", "required", "additionalProperties", "minProperties", "maxProperties"}},
      {"array", {"items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems"}},
      {"string", {"minLength", "maxLength", "pattern", "format"}},
      {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}},
  };
  return kTypeKeywords;
}

bool is_annotation(const std::string& keyword) {
  static const std::set<std::string> kAnnotations = {
      "title",           "description",      "default", "examples", "example",  "deprecated",   "readOnly",
      "writeOnly",       "$schema",          "$id",     "$comment", "$anchor",  "$defs",        "definitions",
      "contentEncoding", "contentMediaType", "strict",  "id",       "nullable", "discriminator"};
  return kAnnotations.contains(keyword) || keyword.starts_with("x-");
}

void check_keywords(const Json& schema, const std::string& path) {
  static const std::set<std::string> kGeneral = {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"};
  for (const auto& entry : schema.items()) {
    const std::string& keyword = entry.key();
    if (is_annotation(keyword) || kGeneral.contains(keyword)) continue;
    const bool is_known = std::any_of(type_keywords().begin(), type_keywords().end(),
                                      [&](const TypeKeywords& t) { return t.keywords.contains(keyword); });
    if (!is_known) fail_schema(path, fmt::format("the keyword `{}` is not supported", keyword));
  }
}

} // namespace ridge::text
