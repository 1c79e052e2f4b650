// Keyword access and schema merging.
#pragma once

#include "text/schema/schema.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

using Json = nlohmann::ordered_json;

// anyOf drops alternatives that throw this.
struct Unsatisfiable : core::Error {
  using core::Error::Error;
};

[[noreturn]] void fail_unsatisfiable(const std::string& path, const std::string& message);

const Json* find_keyword(const Json& schema, const char* keyword);
// Errors name path/keyword.
const Json* find_object(const Json& schema, const char* keyword, const std::string& path);
const Json* find_array(const Json& schema, const char* keyword, const std::string& path);
std::optional<std::string> find_string(const Json& schema, const char* keyword, const std::string& path);
// Clamped to 10^9.
std::optional<uint32_t> find_count(const Json& schema, const char* keyword, const std::string& path);
std::vector<std::string> find_types(const Json& schema, const std::string& path);

size_t count_values(const Json& value);

// For values of a and b, or a superset: of keywords that cannot combine, keeps a's. $ref must be resolved. Expands
// anyOf; `pattern` becomes a list.
Json merge_schemas(const Json& a, const Json& b, const std::string& path);

} // namespace ridge::text
