// Writes a model in one pass to NAME-00001-of-00003.gguf etc. The first has the metadata.
#pragma once

#include "gguf/writer.h"

#include <string>
#include <vector>

namespace ridge::gguf {

class SplitWriter {
 public:
  // `path`: NAME.gguf. max_bytes limits tensor data per file (a larger tensor gets its own); 0, or if all fits: only
  // `path`. Errors as in Writer.
  SplitWriter(const std::string& path, const Metadata& metadata, const std::vector<TensorInfo>& tensors,
              uint64_t max_bytes);

  const std::vector<std::string>& paths() const { return paths_; }
  void write(std::span<const std::byte> data);
  void finish(); // renames to final names

 private:
  struct Part {
    Metadata metadata;
    std::vector<TensorInfo> tensors;
    uint64_t bytes = 0; // without padding
  };
  void start_next();

  std::vector<std::string> paths_;
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<Writer>> writers_;
  uint64_t left_ = 0; // bytes missing from the current part
};

} // namespace ridge::gguf
