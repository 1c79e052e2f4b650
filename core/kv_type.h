// Apart from Programs, for kernels.
#pragma once

#include <cstdint>

namespace ridge::core {

// q8_0: 32 elements of a head share an f16 scale.
enum class KvType : uint8_t { f16, f32, q8_0 };
inline constexpr int64_t kQ8Block = 32;

constexpr int64_t head_bytes(KvType type, int64_t dim) { // per position
  return type == KvType::q8_0 ? dim / kQ8Block * (kQ8Block + 2) : dim * (type == KvType::f16 ? 2 : 4);
}
constexpr double bytes_per_element(KvType type) {
  return static_cast<double>(head_bytes(type, kQ8Block)) / static_cast<double>(kQ8Block);
}

} // namespace ridge::core
