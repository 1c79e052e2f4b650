// The keywords of JSON schema that grammars hold, by the type they restrict. All others are left out.
#pragma once

#include "text/grammar/json_schema/json_schema_merge.h"

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

// Whether a grammar may depend on the keyword.
bool is_held(const std::string& keyword);

} // namespace ridge::text
