// Callable functions and their calls.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace ridge::text {

struct Tool {
  std::string name; // letters, digits and _ - . /
  nlohmann::ordered_json parameters;
};

struct ToolCall {
  std::string id, name;
  std::string arguments; // JSON object

  bool operator==(const ToolCall&) const = default;
};

constexpr size_t kMaxToolName = 128;
constexpr bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == '/';
}
bool is_tool_name(std::string_view name);

// The JSON types that a schema allows; references point into `document`.
struct JsonTypes {
  bool string = false, number = false, boolean = false, null = false;
  bool structured = false;
  bool only_string() const { return string && !number && !boolean && !null && !structured; }
  bool any() const { return string && number && boolean && null && structured; }
};
JsonTypes json_types(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& document);

// ID for a call without one, deterministic. `length`: alphanumeric characters; 0: "call_" and 16 characters.
std::string make_call_id(uint64_t seed, size_t number, int length);

} // namespace ridge::text
