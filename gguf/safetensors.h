// Hugging Face checkpoints' tensors: https://huggingface.co/docs/safetensors, in one file or in shards under an index.
//
// Files are mapped, never loaded: tensors are views into the mappings and live as long as the Safetensors. Nothing in a
// file is trusted. An open checkpoint guarantees: tensor names are unique, not empty, UTF-8; each tensor's
// bytes are exactly its type times its shape, lie in its file, and apart from every other tensor's. They need not be
// aligned. Views are row-major: the last dimension of `shape` is the contiguous one.
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

  int64_t elements() const; // 0 where a dimension is 0
};

class Safetensors {
 public:
  // Opens the checkpoint of a folder: model.safetensors.index.json and the shards it names, or model.safetensors,
  // or the only *.safetensors there is. Throws Error for anything that is missing or inconsistent.
  static Safetensors open(const std::string& folder);
  // Reads one file's image in memory, which must outlive the result; `label` stands for the path in messages.
  static Safetensors from_span(std::span<const std::byte> image, const std::string& label);

  std::span<const SafeTensor> tensors() const { return tensors_; } // sorted by name
  const SafeTensor* find(std::string_view name) const;             // nullptr: absent
  const std::string& path_of(const SafeTensor& tensor) const { return paths_[tensor.shard]; }

  // Gives the memory of the tensor's pages back to the system. They are read again when touched.
  void release(const SafeTensor& tensor) const;
  void check() const; // as gguf::File::check

 private:
  void add_file(std::span<const std::byte> image, const std::string& path);
  void finish(); // sorts; checks that names are unique

  std::vector<std::unique_ptr<core::MappedFile>> files_; // empty for from_span
  std::vector<std::string> paths_;
  std::vector<SafeTensor> tensors_;
};

} // namespace ridge::gguf
