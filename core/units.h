// Human-readable sizes and times.
#pragma once

#include <cstdint>
#include <string>

namespace ridge::core {

std::string human_bytes(double bytes);     // "4.92 GB", decimal
std::string human_seconds(double seconds); // "12 s", "2 min 05 s", "1 h 10 min"

// Parses "4.2GiB", "4200MB", "512K" (binary) or bytes. Throws a usage Error that names the flag.
uint64_t parse_bytes(const std::string& text, const char* flag);

} // namespace ridge::core
