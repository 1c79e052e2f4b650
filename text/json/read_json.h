// Reads JSON that others wrote, in a time and memory that grow with its length alone, and keeps the digits of numbers
// that no 64-bit integer and no double can hold.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string_view>

namespace ridge::text {

struct JsonLimits {
  size_t levels = 64;            // objects and lists inside each other: recursive code must not run out of stack
  size_t members = 10'000;       // of an object, whose members are searched one by one
  size_t containers = 2'000'000; // objects and lists: each is a piece of memory
};

// Integers beyond 64 bits and numbers beyond a double's range become kept numbers. Throws Error for what is no JSON, is
// no UTF-8, or is beyond the limits; the message is to follow the text's name ("nests deeper than 64 levels").
nlohmann::ordered_json read_json(std::string_view text, const JsonLimits& limits = {});

} // namespace ridge::text
