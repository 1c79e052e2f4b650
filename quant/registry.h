// Properties of formats by GGUF type id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ridge::quant {

// Values from kFirstMemoryType never occur in files.
enum class Type : uint32_t {
#define RIDGE_FORMAT(name, id, weights, bytes) name = id,
#include "quant/formats.def"
#undef RIDGE_FORMAT
};

inline constexpr uint32_t kFirstMemoryType = 10000;

struct FormatInfo {
  Type type;
  std::string_view name;
  int64_t block_weights;
  int64_t block_bytes;
  bool packed; // integer codes; false: float format
  // weights: a multiple of block_weights.
  void (*decode)(const std::byte* blocks, int64_t weights, float* out);

  bool stored() const { return static_cast<uint32_t>(type) < kFirstMemoryType; }
  double bits_per_weight() const { return 8.0 * static_cast<double>(block_bytes) / static_cast<double>(block_weights); }
  int64_t row_bytes(int64_t weights) const { return weights / block_weights * block_bytes; }
};

std::span<const FormatInfo> formats();
std::span<const FormatInfo> stored_formats();         // GGUF types only
const FormatInfo* find_format(uint32_t type_id);      // nullptr: unknown
const FormatInfo* find_format(std::string_view name); // case-insensitive; nullptr: unknown
const FormatInfo& format(Type type);

} // namespace ridge::quant
