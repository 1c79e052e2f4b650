// Lists of counts as this field's benchmarks take them: "512", "512,1024", "128-512+128" (steps of 128), "128-1024*2"
// (doubling), "1-4" (every one).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::measure {

// Throws Error (usage) naming the flag and the part that is wrong; each number lies in [least, most], at most 1000.
std::vector<int64_t> parse_counts(const std::string& text, const char* flag, int64_t least, int64_t most);

// "f16,f32" -> its words, each one of `known`. Throws Error (usage).
std::vector<std::string> parse_words(const std::string& text, const char* flag, const std::vector<std::string>& known);

} // namespace ridge::measure
