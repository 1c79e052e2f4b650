// Sizes and times as people write them.
#pragma once

#include <cstdint>
#include <string>

namespace ridge::core {

std::string human_bytes(double bytes);     // "4.92 GB", decimal
std::string human_seconds(double seconds); // of a wait: "9.3 s", "12 s", "2 min 05 s", "1 h 10 min"

// "4.2GiB", "4200MB", "512K" (K, M, G and T alone are binary, as elsewhere in this field) or plain bytes. Throws Error
// (usage) naming the flag.
uint64_t parse_bytes(const std::string& text, const char* flag);

} // namespace ridge::core
