#include "gguf/split_writer.h"

#include "core/error.h"

#include <algorithm>

namespace ridge::gguf {

SplitWriter::SplitWriter(const std::string& path, const Metadata& metadata, const std::vector<TensorInfo>& tensors,
                         uint64_t max_bytes)
    : parts_(1) {
  for (const TensorInfo& tensor : tensors) {
    Part* part = &parts_.back();
    if (max_bytes > 0 && !part->tensors.empty() && part->bytes + tensor.bytes() > max_bytes)
      part = &parts_.emplace_back();
    part->tensors.push_back(tensor);
    part->bytes += tensor.bytes();
  }
  constexpr size_t kMaxParts = 9999; // readers use five digits, writers 16 bits
  if (parts_.size() > kMaxParts)
    throw_error("{}: would need {} files, but at most {} are allowed; choose a larger file size", path, parts_.size(),
                kMaxParts);
  parts_[0].metadata = metadata;
  if (parts_.size() == 1) {
    paths_.push_back(path);
  } else {
    const std::string stem = path.ends_with(".gguf") ? path.substr(0, path.size() - 5) : path;
    for (size_t i = 0; i < parts_.size(); ++i) {
      Metadata& own = parts_[i].metadata;
      if (const OwnedValue* alignment = metadata.find("general.alignment")) own.set("general.alignment", *alignment);
      own.set("split.no", static_cast<uint16_t>(i));
      own.set("split.count", static_cast<uint16_t>(parts_.size()));
      own.set("split.tensors.count", static_cast<int32_t>(tensors.size()));
      paths_.push_back(fmt::format("{}-{:05}-of-{:05}.gguf", stem, i + 1, parts_.size()));
    }
  }
  start_next();
}

void SplitWriter::start_next() {
  const size_t i = writers_.size();
  writers_.push_back(std::make_unique<Writer>(paths_[i], parts_[i].metadata, parts_[i].tensors));
  left_ = parts_[i].bytes;
}

void SplitWriter::write(std::span<const std::byte> data) {
  if (data.empty()) return;
  if (left_ == 0 && writers_.size() < parts_.size()) start_next();
  writers_.back()->write(data);
  left_ -= data.size();
}

void SplitWriter::finish() {
  if (writers_.size() < parts_.size()) throw std::logic_error("gguf::SplitWriter: files are missing");
  for (const auto& writer : writers_) writer->finish();
}

} // namespace ridge::gguf
