// The grammar rules that every JSON schema may use: those of JSON itself; and the patterns of the string formats.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ridge::text {

struct Primitive {
  const char* body;
  std::vector<const char*> uses; // the rules named in the body
};
const std::map<std::string, Primitive>& primitives(); // by rule name

struct Format {
  std::string pattern;             // of whole texts
  uint32_t min_length, max_length; // of texts that match
};
// The formats that grammars hold, by name, as wide as their RFCs. All others say nothing.
const std::map<std::string, Format>& formats();

} // namespace ridge::text
