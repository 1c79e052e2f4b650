// Checks schemas, resolves references.
#pragma once

#include "core/error.h"

#include <nlohmann/json.hpp>

#include <string>

namespace ridge::text {

[[noreturn]] void fail_schema(const std::string& path, const std::string& message);

// `path`: a JSON pointer after #.
std::string child_path(const std::string& path, const std::string& key);

// A copy without null keywords and without boolean `required` (draft 3); kept numbers become doubles; unknown keywords
// remain. Throws Error with the JSON path for invalid values (unknown type, list for an object) and beyond 200 levels.
nlohmann::ordered_json clean_schema(const nlohmann::ordered_json& schema);

// The target of a `$ref` by JSON pointer, anchor or `$id`, or nullptr. Never fetches.
const nlohmann::ordered_json* find_reference(const nlohmann::ordered_json& document, const std::string& reference);

} // namespace ridge::text
