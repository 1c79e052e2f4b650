// Converts arguments in other notations to and from JSON.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace ridge::text {

inline constexpr std::string_view kCdataOpen = "<![CDATA[", kCdataClose = "]]>"; // CallSyntax::cdata

// Python or JSON: 'text', "text", True, None, {'a': 1}, (1, 2). nullopt: invalid.
std::optional<nlohmann::ordered_json> read_python_value(std::string_view text);
std::optional<nlohmann::ordered_json> read_python_arguments(std::string_view text);
// No escapes in <|"|>.
std::optional<nlohmann::ordered_json> read_gemma_arguments(std::string_view text);

// Objects only.
std::string write_python_arguments(const nlohmann::ordered_json& value);
std::string write_gemma_arguments(const nlohmann::ordered_json& value);

// The offset of the closing parenthesis or brace that matches one before `text`; npos: not found.
size_t find_python_end(std::string_view text);
size_t find_gemma_end(std::string_view text);

inline constexpr std::string_view kGemmaQuote = "<|\"|>";

// Untrusted JSON. Discarded if invalid or deeper than kMaxNesting, since writing and rendering recurse.
nlohmann::ordered_json parse_json(std::string_view text);
inline constexpr int kMaxNesting = 64;

// Replaces invalid UTF-8.
std::string compact_json(const nlohmann::ordered_json& value);
// The inside of a JSON string. Copies all bytes except quotes, backslashes and control characters.
std::string escape_json(std::string_view text);

} // namespace ridge::text
