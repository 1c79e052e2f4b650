// The grammar rules that every JSON schema may use: JSON itself and the string formats.
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
  uint32_t min_length, max_length; // of the texts that the rule can produce
};
const std::map<std::string, Format>& formats(); // by name; the rule of NAME is NAME-text

} // namespace ridge::text
