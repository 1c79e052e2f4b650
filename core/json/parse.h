// The parser for external JSON. Time and memory are linear; depth is limited because nlohmann::json recurses.
#pragma once

#include "core/error.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ridge::core {

struct JsonLimits {
  size_t depth = 64;              // nesting of lists and objects
  size_t members = 10'000;        // per ordered object, searched linearly
  size_t containers = 2'000'000;  // lists and objects, one allocation each
  size_t bytes = size_t{1} << 28; // of the text
  // true: numbers beyond 64-bit integers or doubles become `binary` values with their digits (text/json/kept_number.h).
  // false: they become the nearest double or an error.
  bool exact_numbers = false;
};

// The message does not name the document: "is no JSON: at byte 14".
struct JsonError : Error {
  using Error::Error;
};

// Json: nlohmann::json or ordered_json. Members of equal names get the place of the first and the value of the last.
// Throws JsonError.
template <typename Json = nlohmann::ordered_json>
Json parse_json(std::string_view text, const JsonLimits& limits = {});

// Errors begin with `label`, a file or option.
template <typename Json = nlohmann::ordered_json>
Json parse_json(std::string_view text, std::string_view label, const JsonLimits& limits = {});

// Returns nothing if the text is invalid or exceeds the limits.
template <typename Json = nlohmann::ordered_json>
std::optional<Json> find_json(std::string_view text, const JsonLimits& limits = {});

} // namespace ridge::core
