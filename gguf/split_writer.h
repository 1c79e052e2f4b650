// A model in several files of a bounded size: NAME-00001-of-00003.gguf and so on, as other tools name and read them.
// The first holds the metadata. Written like one file with gguf::Writer, in one pass.
#pragma once

#include "gguf/writer.h"

#include <string>
#include <vector>

namespace ridge::gguf {

class SplitWriter {
 public:
  // `path` is NAME.gguf. max_bytes bounds the tensor data of each file (a larger tensor has a file of its own); 0, or
  // where all fits: one file, of just this name. Errors as Writer's.
  SplitWriter(const std::string& path, const Metadata& metadata, const std::vector<TensorInfo>& tensors,
              uint64_t max_bytes);

  const std::vector<std::string>& paths() const { return paths_; }
  void write(std::span<const std::byte> data); // as Writer::write
  void finish();                               // gives all files their final names

 private:
  struct Part {
    Metadata metadata;
    std::vector<TensorInfo> tensors;
    uint64_t bytes = 0; // of data, without padding
  };
  void start_next();

  std::vector<std::string> paths_;
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<Writer>> writers_; // of the parts begun so far
  uint64_t left_ = 0;                            // bytes still to come of the last one begun
};

} // namespace ridge::gguf
