#include "gguf/metadata.h"

#include <algorithm>
#include <stdexcept>

namespace ridge::gguf {
namespace {

int array_depth(const Value& value) {
  if (!value.is_array()) return 0;
  int deepest = 0;
  if (value.element_type() == ValueType::array)
    for (const Value& element : value.elements()) deepest = std::max(deepest, array_depth(element));
  return deepest + 1;
}

} // namespace

OwnedValue::OwnedValue(std::string_view text) : type_(ValueType::string) { append_string(payload_, text); }

OwnedValue::OwnedValue(ValueType element, uint64_t count) : type_(ValueType::array) {
  append_number(payload_, element);
  append_number(payload_, count);
}

OwnedValue::OwnedValue(const std::vector<std::string>& elements) : OwnedValue(ValueType::string, elements.size()) {
  for (const std::string& element : elements) append_string(payload_, element);
}

OwnedValue::OwnedValue(const std::vector<std::string_view>& elements) : OwnedValue(ValueType::string, elements.size()) {
  for (const std::string_view element : elements) append_string(payload_, element);
}

OwnedValue OwnedValue::array(ValueType element, const std::vector<OwnedValue>& elements) {
  OwnedValue out(element, elements.size());
  for (const OwnedValue& value : elements) {
    if (value.type_ != element) throw std::logic_error("gguf::OwnedValue: array elements of different types");
    append_bytes(out.payload_, value.payload_.data(), value.payload_.size());
  }
  if (array_depth(out) > kMaxArrayDepth) throw std::logic_error("gguf::OwnedValue: arrays nest too deep");
  return out;
}

Metadata Metadata::of(const File& file) {
  Metadata out;
  for (const KeyValue& entry : file.metadata())
    if (file.shard_count() == 1 || !entry.key.starts_with("split."))
      out.entries_.push_back({std::string(entry.key), entry.value});
  return out;
}

void Metadata::set(std::string_view key, OwnedValue value) {
  const auto at = std::ranges::find(entries_, key, &Entry::key);
  if (at != entries_.end()) {
    at->value = std::move(value);
  } else {
    entries_.push_back({std::string(key), std::move(value)});
  }
}

bool Metadata::erase(std::string_view key) {
  return std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; }) != 0;
}

const OwnedValue* Metadata::find(std::string_view key) const {
  const auto at = std::ranges::find(entries_, key, &Entry::key);
  return at == entries_.end() ? nullptr : &at->value;
}

} // namespace ridge::gguf
