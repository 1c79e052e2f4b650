// Tensors of Hugging Face checkpoints: https://huggingface.co/docs/safetensors.
//
// Tensors are views into the mapped files, valid as long as the Safetensors. Nothing in a file is trusted. Guaranteed:
// unique, non-empty UTF-8 names; bytes that fit type and shape, inside the file, disjoint, maybe unaligned. Row-major.
#pragma once

#include "core/files/mapped_file.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::gguf {

enum class Dtype : uint8_t {
  BOOL,
  U8,
  I8,
  F8_E5M2,
  F8_E4M3,
  F8_E8M0,
  I16,
  U16,
  F16,
  BF16,
  I32,
  U32,
  F32,
  I64,
  U64,
  F64,
};
std::string_view name_of(Dtype dtype);
int64_t bytes_of(Dtype dtype);

struct SafeTensor {
  std::string name;
  Dtype dtype;
  std::vector<int64_t> shape; // empty: a scalar
  std::span<const std::byte> data;
  int shard;

  int64_t elements() const;
};

class Safetensors {
 public:
  // Opens model.safetensors.index.json with its shards, model.safetensors, or the only *.safetensors. Throws Error if
  // missing or inconsistent.
  static Safetensors open(const std::string& folder);
  // The image must outlive the result; `label` replaces the path in messages.
  static Safetensors from_span(std::span<const std::byte> image, const std::string& label);

  std::span<const SafeTensor> tensors() const { return tensors_; } // sorted by name
  const SafeTensor* find(std::string_view name) const;             // nullptr: absent
  const std::string& path_of(const SafeTensor& tensor) const { return paths_[tensor.shard]; }

  // Frees pages, which are read again on access.
  void release(const SafeTensor& tensor) const;
  void check() const; // like gguf::File::check

 private:
  void add_file(std::span<const std::byte> image, const std::string& path);
  void finish();

  std::vector<std::unique_ptr<core::MappedFile>> files_;
  std::vector<std::string> paths_;
  std::vector<SafeTensor> tensors_;
};

} // namespace ridge::gguf
