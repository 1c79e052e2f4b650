// Writes a model to files of bounded size, NAME-00001-of-00003.gguf etc., in one pass. The first has the metadata.
#pragma once

#include "gguf/writer.h"

#include <string>
#include <vector>

namespace ridge::gguf {

class SplitWriter {
 public:
  // `path`: NAME.gguf. max_bytes limits the tensor data per file (a larger tensor gets its own); 0, or if all fits: one
  // file named `path`. Errors as in Writer.
  SplitWriter(const std::string& path, const Metadata& metadata, const std::vector<TensorInfo>& tensors,
              uint64_t max_bytes);

  const std::vector<std::string>& paths() const { return paths_; }
  void write(std::span<const std::byte> data);
  void finish(); // renames all files to their final names

 private:
  struct Part {
    Metadata metadata;
    std::vector<TensorInfo> tensors;
    uint64_t bytes = 0; // of data, without padding
  };
  void start_next();

  std::vector<std::string> paths_;
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<Writer>> writers_; // of parts begun so far
  uint64_t left_ = 0;                            // bytes missing from the current part
};

} // namespace ridge::gguf
