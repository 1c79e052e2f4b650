// Model files of real shapes without weights: sparse, only what opening checks is written.
#pragma once

#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "models/synthetic.h"

#include "support/temporary_folder.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace ridge::tests {

inline gguf::File weightless_file(const TemporaryFolder& folder, const models::Shape& shape, const std::string& type) {
  const gguf::Metadata metadata = models::metadata_of(shape);
  std::vector<gguf::TensorInfo> tensors = models::tensors_of(shape);
  models::SyntheticSpec::parse(std::string(shape.name) + ":" + type)
      .set_types(tensors, shape.architecture, shape.layers);
  const std::vector<std::byte> head = gguf::file_head(metadata, tensors);
  const std::string path = folder.write("model.gguf", {reinterpret_cast<const char*>(head.data()), head.size()});
  std::filesystem::resize_file(path, gguf::file_bytes(metadata, tensors));
  gguf::File file = gguf::File::open(path);
  if (const gguf::Tensor* factors = file.find_tensor("rope_freqs.weight")) {
    const auto at = factors->data.data() - file.tensors()[0].data.data() + std::ssize(head);
    const std::vector<float> ones(factors->data.size() / sizeof(float), 1);
    std::fstream out(path, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(at).write(reinterpret_cast<const char*>(ones.data()), std::ssize(factors->data));
  }
  return file;
}

} // namespace ridge::tests
