// Rules of JSON itself; patterns of string formats.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ridge::text {

struct Primitive {
  const char* body;
  std::vector<const char*> uses;
};
const std::map<std::string, Primitive>& primitives();

struct Format {
  std::string pattern; // anchored
  uint32_t min_length, max_length;
};
// Formats are as wide as their RFCs.
const std::map<std::string, Format>& formats();

} // namespace ridge::text
