// Editable metadata: owned values in file order.
//
//   gguf::Metadata metadata = gguf::Metadata::of(file);   // every value's bytes as they are
//   metadata.set("general.name", "my model");
//   metadata.set("llama.block_count", uint32_t{32});      // stored as u32: the C++ type decides
//   metadata.set("tokenizer.ggml.scores", std::vector<float>{…});
#pragma once

#include "gguf/append.h"
#include "gguf/gguf.h"

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ridge::gguf {

template <typename T>
concept Scalar = std::integral<T> || std::same_as<T, float> || std::same_as<T, double>;

template <Scalar T>
constexpr ValueType value_type_of() {
  if constexpr (std::same_as<T, bool>) return ValueType::boolean;
  if constexpr (std::floating_point<T>) return sizeof(T) == 4 ? ValueType::f32 : ValueType::f64;
  constexpr ValueType kUnsigned[] = {ValueType::u8, ValueType::u16, ValueType::u32, ValueType::u64};
  constexpr ValueType kSigned[] = {ValueType::i8, ValueType::i16, ValueType::i32, ValueType::i64};
  constexpr int kLog2Bytes = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  return std::is_signed_v<T> ? kSigned[kLog2Bytes] : kUnsigned[kLog2Bytes];
}

class OwnedValue {
 public:
  OwnedValue(const Value& value) : type_(value.type()), payload_(value.payload().begin(), value.payload().end()) {}
  template <Scalar T>
  OwnedValue(T value) : type_(value_type_of<T>()) {
    append_number(payload_, value);
  }
  OwnedValue(std::string_view text);
  OwnedValue(const std::string& text) : OwnedValue(std::string_view(text)) {}
  OwnedValue(const char* text) : OwnedValue(std::string_view(text)) {}

  template <Scalar T>
  OwnedValue(const std::vector<T>& elements) : OwnedValue(value_type_of<T>(), elements.size()) {
    for (const T element : elements) append_number(payload_, element);
  }
  OwnedValue(const std::vector<std::string>& elements);
  OwnedValue(const std::vector<std::string_view>& elements);
  // std::logic_error for mixed types or too deep nesting.
  static OwnedValue array(ValueType element, const std::vector<OwnedValue>& elements);

  operator Value() const { return view(); } // valid as long as this
  Value view() const { return {type_, payload_}; }

 private:
  OwnedValue(ValueType element, uint64_t count);

  ValueType type_;
  std::vector<std::byte> payload_;
};

class Metadata {
 public:
  struct Entry {
    std::string key;
    OwnedValue value;
  };

  // Without split.* keys, which describe files.
  static Metadata of(const File& file);

  // Replaces or appends. The Writer checks keys.
  void set(std::string_view key, OwnedValue value);
  bool erase(std::string_view key);                   // true: existed
  const OwnedValue* find(std::string_view key) const; // nullptr: absent; valid until a change
  std::span<const Entry> entries() const { return entries_; }

 private:
  std::vector<Entry> entries_; // few: linear search
};

} // namespace ridge::gguf
