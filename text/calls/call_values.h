// Values of arguments in notations other than JSON, as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace ridge::text {

inline constexpr std::string_view kCdataOpen = "<![CDATA[", kCdataClose = "]]>"; // CallSyntax::cdata

// A value as Python or JSON writes it: 'text', "text", True, None, {'a': 1}, (1, 2). Nothing: it is none.
std::optional<nlohmann::ordered_json> read_python_value(std::string_view text);
// KEY=VALUE, KEY=VALUE as an object.
std::optional<nlohmann::ordered_json> read_python_arguments(std::string_view text);
// {KEY:VALUE,KEY:VALUE} with strings in <|"|>, which are not escaped.
std::optional<nlohmann::ordered_json> read_gemma_arguments(std::string_view text);

// The same in the other direction; `value` is an object.
std::string write_python_arguments(const nlohmann::ordered_json& value);
std::string write_gemma_arguments(const nlohmann::ordered_json& value);

// Where the parenthesis or brace that is open before `text` is closed, strings and nested ones passed over; npos: not
// in this text.
size_t find_python_end(std::string_view text);
size_t find_gemma_end(std::string_view text);

inline constexpr std::string_view kGemmaQuote = "<|\"|>";

// JSON of a text that a model or a client wrote. Discarded where it is none, and where it nests deeper than
// kMaxNesting: what writes or renders it calls itself for each level.
nlohmann::ordered_json parse_json(std::string_view text);
inline constexpr int kMaxNesting = 64;

// JSON on one line. Bytes that are no UTF-8 are replaced.
std::string compact_json(const nlohmann::ordered_json& value);
// The inside of a JSON string that says `text`. Bytes that are no control characters stay as they are.
std::string escape_json(std::string_view text);

} // namespace ridge::text
