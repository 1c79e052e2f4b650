// GGUF files field by field, valid or not, independent of gguf::Writer. at(): the offset of the next field.
#pragma once

#include "core/error.h"
#include "gguf/gguf.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::tests {

class Builder {
 public:
  Builder() = default;
  Builder(uint64_t tensors, uint64_t keys, uint32_t version = 3) { raw("GGUF").u32(version).u64(tensors).u64(keys); }

  uint64_t at() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }

  Builder& raw(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  template <typename T>
  Builder& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Builder& u32(uint32_t value) { return number(value); }
  Builder& u64(uint64_t value) { return number(value); }
  Builder& string(std::string_view text) { return u64(text.size()).raw(text); }
  Builder& key(std::string_view name, uint32_t type) { return string(name).u32(type); }
  Builder& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    string(name).u32(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) u64(dim);
    return u32(type).u64(offset);
  }
  Builder& pad(uint64_t alignment = 32) { return raw(std::string((alignment - at() % alignment) % alignment, '\0')); }
  Builder& data(size_t count, char fill = 'd') { return raw(std::string(count, fill)); }

 private:
  std::string bytes_;
};

inline gguf::File open_bytes(std::string_view bytes, const std::string& label = "test.gguf") {
  auto image = std::make_shared<std::vector<std::byte>>(bytes.size());
  if (!bytes.empty()) std::memcpy(image->data(), bytes.data(), bytes.size());
  return gguf::File::from_bytes(image, label);
}

// The error message for `bytes`; empty if accepted.
inline std::string refusal(std::string_view bytes) {
  try {
    open_bytes(bytes);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

inline bool one_printable_line(std::string_view message) {
  return std::none_of(message.begin(), message.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

inline std::string small_file() {
  Builder file(2, 6);
  file.key("general.architecture", 8).string("llama");
  file.key("llama.block_count", 4).u32(5);
  file.key("flag", 7).raw("\x01");
  file.key("tokens", 9).u32(8).u64(3).string("<s>").string("").string("▁the");
  file.key("scores", 9).u32(6).u64(2).number(0.5f).number(-1.0f);
  file.key("nested", 9).u32(9).u64(2);
  file.u32(5).u64(2).number(-1).number(7);
  file.u32(7).u64(1).raw("\x01");
  file.tensor("a.weight", {32, 2}, 8, 0);
  file.tensor("b.weight", {3}, 0, 96);
  file.pad().data(68, 'a').pad().data(12, 'b');
  return file.bytes();
}

} // namespace ridge::tests
