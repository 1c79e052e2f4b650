#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ridge::gguf {

inline void append_bytes(std::vector<std::byte>& out, const void* bytes, size_t count) {
  if (count == 0) return;
  const size_t start = out.size();
  out.resize(start + count);
  std::memcpy(out.data() + start, bytes, count);
}

template <typename T>
requires std::is_arithmetic_v<T> || std::is_enum_v<T>
void append_number(std::vector<std::byte>& out, T number) { append_bytes(out, &number, sizeof number); }

inline void append_string(std::vector<std::byte>& out, std::string_view text) {
  append_number(out, static_cast<uint64_t>(text.size()));
  append_bytes(out, text.data(), text.size());
}

} // namespace ridge::gguf
