// Schemas as values: checked access to their keywords, and the schema that means "both of these".
#pragma once

#include "text/schema/schema.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

using Json = nlohmann::ordered_json;

// Nothing satisfies the schema. An alternative of anyOf that throws this is left out.
struct Unsatisfiable : core::Error {
  using core::Error::Error;
};

[[noreturn]] void fail_unsatisfiable(const std::string& path, const std::string& message);

// The keyword's value, null if it is absent.
const Json* find_keyword(const Json& schema, const char* keyword);
// Checked: Errors name path/keyword.
const Json* find_object(const Json& schema, const char* keyword, const std::string& path);
const Json* find_array(const Json& schema, const char* keyword, const std::string& path);
std::optional<std::string> find_string(const Json& schema, const char* keyword, const std::string& path);
// Beyond 10^9: that much.
std::optional<uint32_t> find_count(const Json& schema, const char* keyword, const std::string& path);
// The types that `type` names; empty without that keyword.
std::vector<std::string> find_types(const Json& schema, const std::string& path);

// The number of values in a schema: the cost of copying it.
size_t count_values(const Json& value);

// A schema that both a and b allow, and perhaps more: of two values of a keyword that cannot be combined, the second is
// left out. $ref must be resolved beforehand; anyOf of both are multiplied out. `pattern` becomes a list of patterns.
Json merge_schemas(const Json& a, const Json& b, const std::string& path);

} // namespace ridge::text
