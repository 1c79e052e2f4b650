// Numbers beyond int64 and double in nlohmann's JSON: `binary` values (absent in JSON text) with the number's text.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace ridge::text {

inline bool is_kept_number(const nlohmann::ordered_json& value) { return value.is_binary(); }
std::string written_number(const nlohmann::ordered_json& kept); // the original text

inline bool is_any_number(const nlohmann::ordered_json& value) { return value.is_number() || is_kept_number(value); }

// Keeps such numbers verbatim; replaces invalid UTF-8. `indent` < 0: one line.
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

// Replaces kept numbers by the nearest doubles.
nlohmann::ordered_json with_doubles(nlohmann::ordered_json value);

} // namespace ridge::text
