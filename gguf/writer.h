// Writes GGUF version 3: metadata and tensor infos, then data in chunks.
//
//   gguf::Writer writer("out.gguf", gguf::Metadata::of(in), gguf::tensor_infos(in));
//   for (const gguf::Tensor& tensor : in.tensors()) writer.write(tensor.data);
//   writer.finish();
//
// Such a copy is identical for version 3 files with the common layout: tensors in info order, each padded to the
// alignment, including the last. The output may replace the mapped input, whose bytes live until unmapped
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
  std::vector<int64_t> dims; // dims[0] contiguous

  uint64_t bytes() const; // the shape must be valid
};

std::vector<TensorInfo> tensor_infos(const File& file);

// Size of the whole file; errors as in Writer.
uint64_t file_bytes(const Metadata& metadata, std::vector<TensorInfo> tensors);
// Bytes before tensor data.
std::vector<std::byte> file_head(const Metadata& metadata, std::vector<TensorInfo> tensors);

class Writer {
 public:
  // Throws Error if the file cannot be created, or for invalid names, shapes or general.alignment.
  Writer(const std::string& path, const Metadata& metadata, std::vector<TensorInfo> tensors);
  // To memory: `image` must outlive the Writer and is complete after finish().
  Writer(std::vector<std::byte>& image, const Metadata& metadata, std::vector<TensorInfo> tensors);
  ~Writer(); // without finish(): discards the file
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  uint64_t size_bytes() const { return size_bytes_; }

  // Appends to the current tensor; std::logic_error beyond its end.
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

  std::vector<std::byte> lay_out(const std::string& label, const Metadata& metadata);

  std::vector<TensorInfo> tensors_;
  std::unique_ptr<Sink> sink_;
  uint64_t alignment_ = kDefaultAlignment, size_bytes_ = 0;
  size_t current_ = 0;
  uint64_t left_ = 0; // bytes missing from the current tensor
};

} // namespace ridge::gguf
