// A function that a model may call, and a call of it.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace ridge::text {

struct Tool {
  std::string name;                  // letters, digits and _ - . /
  nlohmann::ordered_json parameters; // JSON schema of an object
};

struct ToolCall {
  std::string id, name;
  std::string arguments; // text of a JSON object

  bool operator==(const ToolCall&) const = default;
};

constexpr size_t kMaxToolName = 128; // bytes
constexpr bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == '/';
}
bool is_tool_name(std::string_view name);

// Which JSON types a schema allows, references within `document` followed.
struct JsonTypes {
  bool string = false, number = false, boolean = false, null = false;
  bool structured = false; // object, array
  bool only_string() const { return string && !number && !boolean && !null && !structured; }
  bool any() const { return string && number && boolean && null && structured; }
};
JsonTypes json_types(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& document);

// The id that a call gets where its text has none: the same for the same seed and number. `length`: of letters and
// digits; 0: "call_" and 16 of them.
std::string make_call_id(uint64_t seed, size_t number, int length);

} // namespace ridge::text
