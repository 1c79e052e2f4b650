// Numbers that no 64-bit integer and no double can hold, within nlohmann's JSON: a kept number is a value of type
// `binary`, which JSON text never has, with the number's own text as bytes.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace ridge::text {

inline bool is_kept_number(const nlohmann::ordered_json& value) { return value.is_binary(); }
std::string written_number(const nlohmann::ordered_json& kept); // as it was written

inline bool is_any_number(const nlohmann::ordered_json& value) { return value.is_number() || is_kept_number(value); }

// JSON text with kept numbers as they were written. Bytes that are no UTF-8 are replaced. `indent`: of one level; below
// 0: on one line.
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

// The same value with the nearest doubles in the place of kept numbers, for code that calculates.
nlohmann::ordered_json with_doubles(nlohmann::ordered_json value);

} // namespace ridge::text
