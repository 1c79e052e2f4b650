// Reads all of a file, for sanitizers; its copy must read back equal.
#pragma once

#include "gguf/writer.h"

#include <algorithm>
#include <cstdlib>
#include <span>

namespace ridge::tests {

inline void demand(bool condition) {
  if (!condition) std::abort();
}

inline uint64_t touch_bytes(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  for (const std::byte b : bytes) sum += static_cast<uint64_t>(b);
  return sum;
}

inline uint64_t touch(const gguf::Value& value) {
  uint64_t sum = touch_bytes(value.payload());
  if (const auto number = value.as_int()) sum += static_cast<uint64_t>(*number);
  sum += value.as_float().has_value() + value.as_bool().value_or(false);
  if (const auto text = value.as_string()) sum += touch_bytes(std::as_bytes(std::span(*text)));
  if (!value.is_array()) return sum;
  demand(value.elements().size() == value.size());
  for (const gguf::Value& element : value.elements()) sum += touch(element);
  if (const auto numbers = value.as_ints()) demand(numbers->size() == value.size());
  if (const auto numbers = value.as_floats()) demand(numbers->size() == value.size());
  if (const auto texts = value.as_strings())
    for (const std::string_view text : *texts) sum += touch_bytes(std::as_bytes(std::span(text)));
  return sum;
}

inline uint64_t touch(const gguf::File& file) {
  uint64_t sum = file.size_bytes();
  for (const gguf::KeyValue& entry : file.metadata()) {
    demand(file.find(entry.key) == &entry.value);
    sum += touch(entry.value);
  }
  for (const gguf::Tensor& tensor : file.tensors()) {
    demand(file.find_tensor(tensor.name) == &tensor);
    demand(tensor.weights() > 0 && !tensor.data.empty());
    sum += touch_bytes(tensor.data);
  }
  return sum;
}

inline std::vector<std::byte> copy_of(const gguf::File& file) {
  std::vector<std::byte> image;
  gguf::Writer writer(image, gguf::Metadata::of(file), gguf::tensor_infos(file));
  for (const gguf::Tensor& tensor : file.tensors()) writer.write(tensor.data);
  writer.finish();
  demand(image.size() == writer.size_bytes());
  return image;
}

// Offsets may differ.
inline bool same_content(const gguf::File& a, const gguf::File& b) {
  const auto same_bytes = [](std::span<const std::byte> x, std::span<const std::byte> y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end());
  };
  return std::equal(a.metadata().begin(), a.metadata().end(), b.metadata().begin(), b.metadata().end(),
                    [&](const gguf::KeyValue& x, const gguf::KeyValue& y) {
                      return x.key == y.key && x.value.type() == y.value.type() &&
                             same_bytes(x.value.payload(), y.value.payload());
                    }) &&
         std::equal(a.tensors().begin(), a.tensors().end(), b.tensors().begin(), b.tensors().end(),
                    [&](const gguf::Tensor& x, const gguf::Tensor& y) {
                      return x.name == y.name && x.type == y.type && x.n_dims == y.n_dims && x.dims == y.dims &&
                             same_bytes(x.data, y.data);
                    });
}

} // namespace ridge::tests
