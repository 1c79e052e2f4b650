// Values are views of unaligned bytes.
#include "gguf/gguf.h"

#include <bit>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace ridge::gguf {
namespace {

static_assert(std::endian::native == std::endian::little,
              "GGUF files are little-endian and need a little-endian machine");

constexpr size_t kArrayHeaderBytes = 4 + 8; // element type, count
constexpr size_t kLengthBytes = 8;

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::optional<int64_t> int_at(ValueType type, const std::byte* at) {
  switch (type) {
  case ValueType::u8:
  case ValueType::boolean: return load<uint8_t>(at);
  case ValueType::i8: return load<int8_t>(at);
  case ValueType::u16: return load<uint16_t>(at);
  case ValueType::i16: return load<int16_t>(at);
  case ValueType::u32: return load<uint32_t>(at);
  case ValueType::i32: return load<int32_t>(at);
  case ValueType::i64: return load<int64_t>(at);
  case ValueType::u64:
    if (const uint64_t value = load<uint64_t>(at); std::in_range<int64_t>(value)) return static_cast<int64_t>(value);
    return std::nullopt;
  default: return std::nullopt;
  }
}

std::optional<double> float_at(ValueType type, const std::byte* at) {
  switch (type) {
  case ValueType::f32: return load<float>(at);
  case ValueType::f64: return load<double>(at);
  case ValueType::u64: return static_cast<double>(load<uint64_t>(at));
  case ValueType::boolean: return std::nullopt;
  default:
    if (const auto value = int_at(type, at)) return static_cast<double>(*value);
    return std::nullopt;
  }
}

template <typename T, typename Read>
std::optional<std::vector<T>> scalars(const Value& array, Read read) {
  if (!array.is_array()) return std::nullopt;
  const ValueType type = array.element_type();
  const size_t stride = scalar_bytes(type);
  if (stride == 0) return std::nullopt;
  std::vector<T> out;
  out.reserve(array.size());
  const std::byte* at = array.payload().data() + kArrayHeaderBytes;
  for (uint64_t i = 0; i < array.size(); ++i, at += stride) {
    const auto value = read(type, at);
    if (!value) return std::nullopt;
    out.push_back(static_cast<T>(*value));
  }
  return out;
}

size_t payload_bytes(ValueType type, const std::byte* at);

size_t array_bytes(const std::byte* at) {
  const auto element = load<ValueType>(at);
  const auto count = load<uint64_t>(at + 4);
  if (const size_t stride = scalar_bytes(element)) return kArrayHeaderBytes + stride * count;
  const std::byte* end = at + kArrayHeaderBytes;
  for (uint64_t i = 0; i < count; ++i) end += payload_bytes(element, end);
  return static_cast<size_t>(end - at);
}

size_t payload_bytes(ValueType type, const std::byte* at) {
  if (type == ValueType::string) return kLengthBytes + load<uint64_t>(at);
  if (type == ValueType::array) return array_bytes(at);
  return scalar_bytes(type);
}

} // namespace

std::string_view name_of(ValueType type) {
  constexpr std::string_view kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                         "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<uint32_t>(type)];
}

size_t scalar_bytes(ValueType type) {
  constexpr uint8_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<uint32_t>(type)];
}

std::optional<int64_t> Value::as_int() const { return int_at(type_, payload_.data()); }

std::optional<double> Value::as_float() const { return float_at(type_, payload_.data()); }

std::optional<bool> Value::as_bool() const {
  if (type_ != ValueType::boolean) return std::nullopt;
  return payload_[0] != std::byte{0};
}

std::optional<std::string_view> Value::as_string() const {
  if (type_ != ValueType::string) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(payload_.data()) + kLengthBytes,
                          payload_.size() - kLengthBytes);
}

ValueType Value::element_type() const {
  if (!is_array()) throw std::logic_error("gguf::Value: not an array");
  return load<ValueType>(payload_.data());
}

uint64_t Value::size() const {
  if (!is_array()) throw std::logic_error("gguf::Value: not an array");
  return load<uint64_t>(payload_.data() + 4);
}

std::vector<Value> Value::elements() const {
  const ValueType type = element_type();
  std::vector<Value> out;
  out.reserve(size());
  const std::byte* at = payload_.data() + kArrayHeaderBytes;
  for (uint64_t i = 0; i < size(); ++i) {
    const size_t bytes = payload_bytes(type, at);
    out.emplace_back(type, std::span(at, bytes));
    at += bytes;
  }
  return out;
}

std::optional<std::vector<int64_t>> Value::as_ints() const { return scalars<int64_t>(*this, int_at); }

std::optional<std::vector<float>> Value::as_floats() const { return scalars<float>(*this, float_at); }

std::optional<std::vector<std::string_view>> Value::as_strings() const {
  if (!is_array() || element_type() != ValueType::string) return std::nullopt;
  std::vector<std::string_view> out;
  out.reserve(size());
  const std::byte* at = payload_.data() + kArrayHeaderBytes;
  for (uint64_t i = 0; i < size(); ++i) {
    const auto length = load<uint64_t>(at);
    out.emplace_back(reinterpret_cast<const char*>(at) + kLengthBytes, length);
    at += kLengthBytes + length;
  }
  return out;
}

} // namespace ridge::gguf
