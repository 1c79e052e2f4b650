// JSON schemas as clients send them: what is no schema, and where references lead.
#pragma once

#include "core/error.h"

#include <nlohmann/json.hpp>

#include <string>

namespace ridge::text {

[[noreturn]] void fail_schema(const std::string& path, const std::string& message);

// `path`, a JSON pointer behind #, and one key more.
std::string child_path(const std::string& path, const std::string& key);

// A copy without keywords that are null, and without a `required` that is no list, as in schemas of draft 3. Numbers
// that were kept by their digits become the nearest doubles. Unknown keywords stay: they are annotations. Throws an
// Error that names the JSON path of what no validator takes, such as a type that is none or a list in place of an
// object, and for what is nested deeper than 200 levels.
nlohmann::ordered_json clean_schema(const nlohmann::ordered_json& schema);

// The part of the document that a `$ref` means: by a JSON pointer, an anchor, or the `$id` of a part. Null: there is
// none. Nothing is ever fetched.
const nlohmann::ordered_json* find_reference(const nlohmann::ordered_json& document, const std::string& reference);

} // namespace ridge::text
