#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>

namespace ridge::text {

// Random per process: hostile files cannot force collisions.
inline const uint64_t kHashSeed = static_cast<uint64_t>(std::random_device{}()) << 32 | std::random_device{}();

inline uint64_t mix(uint64_t value) { // enough for power-of-two tables
  const unsigned __int128 product = static_cast<unsigned __int128>(value ^ kHashSeed) * 0x9E3779B97F4A7C15u;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash_bytes(std::string_view text) {
  const char* data = text.data();
  size_t left = text.size();
  uint64_t hash = left + 1;
  for (; left >= 8; data += 8, left -= 8) {
    uint64_t eight;
    std::memcpy(&eight, data, 8);
    hash = mix(hash ^ eight) + 0x632BE59BD9B4E019u;
  }
  uint64_t tail = 0;
  if (left >= 4) {
    uint32_t first, last;
    std::memcpy(&first, data, 4);
    std::memcpy(&last, data + left - 4, 4);
    tail = static_cast<uint64_t>(first) << 32 | last;
  } else if (left > 0) {
    const auto byte = [&](size_t i) { return static_cast<uint64_t>(static_cast<unsigned char>(data[i])); };
    tail = byte(0) << 16 | byte(left / 2) << 8 | byte(left - 1);
  }
  return mix(hash ^ tail);
}

} // namespace ridge::text
