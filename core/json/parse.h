// The one way in which JSON from outside is read: in a time and a memory that grow with the text's length alone, to a
// bounded depth, because what walks, prints and destroys a document calls itself for each level.
#pragma once

#include "core/error.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ridge::core {

struct JsonLimits {
  size_t depth = 64;              // lists and objects within each other
  size_t members = 10'000;        // of an object that keeps their order: they are searched one by one
  size_t inside = 2'000'000;      // lists and objects: each is a piece of memory
  size_t bytes = size_t{1} << 28; // of the text
  // Integers beyond 64 bits and numbers beyond a double's range keep their digits: they become values of type `binary`,
  // which JSON text never has (text/json/kept_number.h). Otherwise they become the nearest double, or an error.
  bool exact_numbers = false;
};

// What is wrong with a document, without its name: "is no JSON: at byte 14", "nests deeper than 64 levels".
struct JsonError : Error {
  using Error::Error;
};

// Json: nlohmann::json or nlohmann::ordered_json. Members of one name become one, with the first one's place and
// the last one's value. Throws JsonError.
template <typename Json = nlohmann::ordered_json>
Json parse_json(std::string_view text, const JsonLimits& limits = {});

// The same; the Error begins with `label`, a file's or an option's name.
template <typename Json = nlohmann::ordered_json>
Json parse_json(std::string_view text, std::string_view label, const JsonLimits& limits = {});

// Nothing where the text is no JSON, or beyond the limits.
template <typename Json = nlohmann::ordered_json>
std::optional<Json> find_json(std::string_view text, const JsonLimits& limits = {});

} // namespace ridge::core
