// Sizes as people write them.
#pragma once

#include <cstdint>
#include <string>

namespace ridge::core {

std::string human_bytes(double bytes); // "4.92 GB", decimal

// "4.2GiB", "4200MB", "512K" (K, M, G and T alone are binary, as elsewhere in this field) or plain bytes. Throws Error
// (usage) naming the flag.
uint64_t parse_bytes(const std::string& text, const char* flag);

} // namespace ridge::core
