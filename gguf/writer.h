// GGUF files, written: version 3, metadata and tensor infos first, then the data of one tensor after another, in chunks
// of any size. Everything but the data is known up front, so files of any size are written with little memory.
//
//   gguf::Writer writer("out.gguf", gguf::Metadata::of(in), gguf::tensor_infos(in));
//   for (const gguf::Tensor& tensor : in.tensors()) writer.write(tensor.data);
//   writer.finish();
//
// Copying a file of version 3 like this gives the same bytes, as far as the common tools lay files out: tensors in the
// order of their infos, each padded to the alignment, the last one too. The input may be the file that is written over,
// mapped as it is: the old bytes live until the mapping ends (core/files/atomic_file.h).
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
  std::vector<int64_t> dims; // weights; dims[0] contiguous; at most kMaxDims

  uint64_t bytes() const; // of a shape without shape_problem
};

std::vector<TensorInfo> tensor_infos(const File& file);

// The size of the file that a Writer would make. Errors as Writer's.
uint64_t file_bytes(const Metadata& metadata, std::vector<TensorInfo> tensors);
// All that precedes the tensors' data in it.
std::vector<std::byte> file_head(const Metadata& metadata, std::vector<TensorInfo> tensors);

class Writer {
 public:
  // Throws Error where the file cannot be created or would be invalid: bad names, shapes, alignment
  // (general.alignment of `metadata`).
  Writer(const std::string& path, const Metadata& metadata, std::vector<TensorInfo> tensors);
  // Into memory: replaces what `image` holds; `image` is a whole file after finish() and must outlive the Writer.
  Writer(std::vector<std::byte>& image, const Metadata& metadata, std::vector<TensorInfo> tensors);
  ~Writer(); // without finish(): the file is not made
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  uint64_t size_bytes() const { return size_bytes_; } // of the whole file

  // The next bytes of the current tensor, which begins where the one before it is complete. A chunk does not reach into
  // the next tensor: std::logic_error.
  void write(std::span<const std::byte> data);
  // std::logic_error where data is missing.
  void finish();

 private:
  friend uint64_t file_bytes(const Metadata& metadata, std::vector<TensorInfo> tensors);
  friend std::vector<std::byte> file_head(const Metadata& metadata, std::vector<TensorInfo> tensors);
  explicit Writer(std::vector<TensorInfo> tensors); // lays out only

  class Sink;
  class FileSink;
  class MemorySink;

  std::vector<std::byte> lay_out(const std::string& label, const Metadata& metadata); // all that precedes the data

  std::vector<TensorInfo> tensors_;
  std::unique_ptr<Sink> sink_;
  uint64_t alignment_ = kDefaultAlignment, size_bytes_ = 0;
  size_t current_ = 0; // index of the tensor whose data comes next
  uint64_t left_ = 0;  // bytes of it that are still to come
};

} // namespace ridge::gguf
