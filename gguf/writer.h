// Writes GGUF version 3 files: metadata and tensor infos first, then each tensor's data in chunks, with little memory.
//
//   gguf::Writer writer("out.gguf", gguf::Metadata::of(in), gguf::tensor_infos(in));
//   for (const gguf::Tensor& tensor : in.tensors()) writer.write(tensor.data);
//   writer.finish();
//
// Such a copy of a version 3 file is identical if the file has the common layout: tensors in info order, each padded to
// the alignment, including the last. The output may replace the mapped input: the old bytes live until unmapped
// (core/files/atomic_file.h).
#pragma once

#include "gguf/metadata.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ridge::gguf {

struct TensorInfo {
  std::string name;
  TensorType type;
  std::vector<int64_t> dims; // dims[0] contiguous; at most kMaxDims

  uint64_t bytes() const; // requires a shape without shape_problem
};

std::vector<TensorInfo> tensor_infos(const File& file);

// Size of the file that a Writer would make; errors as in Writer.
uint64_t file_bytes(const Metadata& metadata, std::vector<TensorInfo> tensors);
// The bytes before the tensor data.
std::vector<std::byte> file_head(const Metadata& metadata, std::vector<TensorInfo> tensors);

class Writer {
 public:
  // Throws Error if the file cannot be created or a name, shape or alignment (general.alignment) is invalid.
  Writer(const std::string& path, const Metadata& metadata, std::vector<TensorInfo> tensors);
  // To memory: `image` must outlive the Writer and is complete after finish().
  Writer(std::vector<std::byte>& image, const Metadata& metadata, std::vector<TensorInfo> tensors);
  ~Writer(); // without finish(), no file is made
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  uint64_t size_bytes() const { return size_bytes_; } // whole file

  // Appends to the current tensor. A chunk that crosses into the next throws std::logic_error.
  void write(std::span<const std::byte> data);
  // std::logic_error if data is missing.
  void finish();

 private:
  friend uint64_t file_bytes(const Metadata& metadata, std::vector<TensorInfo> tensors);
  friend std::vector<std::byte> file_head(const Metadata& metadata, std::vector<TensorInfo> tensors);
  explicit Writer(std::vector<TensorInfo> tensors); // lays out only

  class Sink;
  class FileSink;
  class MemorySink;

  // returns the bytes before the data
  std::vector<std::byte> lay_out(const std::string& label, const Metadata& metadata);

  std::vector<TensorInfo> tensors_;
  std::unique_ptr<Sink> sink_;
  uint64_t alignment_ = kDefaultAlignment, size_bytes_ = 0;
  size_t current_ = 0; // index of the tensor being written
  uint64_t left_ = 0;  // its missing bytes
};

} // namespace ridge::gguf
