// Types of KV caches. Apart from Programs, for kernels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::core {

// Files of prefixes hold these numbers.
enum class KvType : uint8_t { f16, f32, q8_0, bf16, q5_1, q5_0, q4_1, q4_0, iq4_nl };

// 32 elements of a head share a scale and, in some types, a minimum. Types of 4 and 5 bits hold rotated heads
// (core/host_device/kv_rotation.h).
inline constexpr int64_t kKvBlock = 32;

struct KvFormat {
  std::string_view name;
  int bits;   // of an element
  int halves; // per block: 0 for floats, 1 scale, perhaps 1 minimum
  bool rotated;
};
inline constexpr KvFormat kKvFormats[] = {{"f16", 16, 0, false},  {"f32", 32, 0, false}, {"q8_0", 8, 1, false},
                                          {"bf16", 16, 0, false}, {"q5_1", 5, 2, true},  {"q5_0", 5, 1, true},
                                          {"q4_1", 4, 2, true},   {"q4_0", 4, 1, true},  {"iq4_nl", 4, 1, true}};
constexpr const KvFormat& format_of(KvType type) { return kKvFormats[static_cast<int>(type)]; }

// Caches of floats take heads of any size.
constexpr int64_t head_bytes(KvType type, int64_t dim) { // per position
  const KvFormat& format = format_of(type);
  return dim * (4 * format.bits + 2 * format.halves) / kKvBlock;
}
constexpr double bytes_per_element(KvType type) {
  return static_cast<double>(head_bytes(type, kKvBlock)) / static_cast<double>(kKvBlock);
}
constexpr bool has_blocks(KvType type) { return format_of(type).halves > 0; }

// Throws Error.
KvType kv_type_of(std::string_view name);
std::vector<std::string> kv_type_names();

} // namespace ridge::core
