// The keywords of JSON schema that are supported, by the type they restrict.
#pragma once

#include "text/grammar/json_schema_merge.h"

#include <set>
#include <string>
#include <vector>

namespace ridge::text {

struct TypeKeywords {
  const char* type;
  std::set<std::string> keywords;
};

// A schema without `type` that has one of a type's keywords allows that type.
const std::vector<TypeKeywords>& type_keywords();

// Whether a keyword restricts nothing: title, default, $comment, …
bool is_annotation(const std::string& keyword);

// Throws an Error that names `path` where the schema has a keyword that is not supported.
void check_keywords(const Json& schema, const std::string& path);

} // namespace ridge::text
