// A GGUF file without tensors.
#pragma once

#include "gguf/append.h"
#include "gguf/metadata.h"

#include <memory>
#include <vector>

namespace ridge::tests {

inline gguf::File file_of(const gguf::Metadata& metadata) {
  std::vector<std::byte> image;
  gguf::append_bytes(image, "GGUF", 4);
  gguf::append_number(image, uint32_t{3});
  gguf::append_number(image, uint64_t{0});
  gguf::append_number(image, static_cast<uint64_t>(metadata.entries().size()));
  for (const auto& [key, value] : metadata.entries()) {
    gguf::append_string(image, key);
    gguf::append_number(image, value.view().type());
    gguf::append_bytes(image, value.view().payload().data(), value.view().payload().size());
  }
  return gguf::File::from_bytes(std::make_shared<const std::vector<std::byte>>(std::move(image)), "memory.gguf");
}

} // namespace ridge::tests
