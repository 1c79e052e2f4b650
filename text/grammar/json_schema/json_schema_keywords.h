// Supported keywords, by type.
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

// Without `type`, a keyword implies its type.
const std::vector<TypeKeywords>& type_keywords();

bool is_enforced(const std::string& keyword);

} // namespace ridge::text
