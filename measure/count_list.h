// Lists of counts: "512", "512,1024", "128-512+128" (steps), "128-1024*2" (doubling), "1-4" (each).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::measure {

// At most 1000 numbers in [least, most]. Throws a usage Error with flag and wrong part.
std::vector<int64_t> parse_counts(const std::string& text, const char* flag, int64_t least, int64_t most);

// Throws a usage Error for words not in `known`.
std::vector<std::string> parse_words(const std::string& text, const char* flag, const std::vector<std::string>& known);

} // namespace ridge::measure
