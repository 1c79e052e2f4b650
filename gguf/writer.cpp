#include "gguf/writer.h"

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "gguf/parse.h"

#include <stdexcept>

namespace ridge::gguf {

class Writer::Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;
  virtual void finish() = 0;
};

class Writer::FileSink : public Sink {
 public:
  FileSink(const std::string& path, uint64_t size_bytes) : file_(path, size_bytes) {}
  void write(std::span<const std::byte> bytes) override { file_.write(bytes); }
  void finish() override { file_.commit(); }

 private:
  core::AtomicFile file_;
};

class Writer::MemorySink : public Sink {
 public:
  MemorySink(std::vector<std::byte>& image, uint64_t size_bytes) : image_(image) {
    image_.clear();
    image_.reserve(size_bytes);
  }
  void write(std::span<const std::byte> bytes) override { image_.insert(image_.end(), bytes.begin(), bytes.end()); }
  void finish() override {}

 private:
  std::vector<std::byte>& image_;
};

uint64_t TensorInfo::bytes() const {
  uint64_t bytes = static_cast<uint64_t>(type.row_bytes(dims.empty() ? 1 : dims[0]));
  for (size_t i = 1; i < dims.size(); ++i) bytes *= static_cast<uint64_t>(dims[i]);
  return bytes;
}

std::vector<TensorInfo> tensor_infos(const File& file) {
  std::vector<TensorInfo> infos;
  for (const Tensor& tensor : file.tensors())
    infos.push_back(
        {std::string(tensor.name), tensor.type, {tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims}});
  return infos;
}

Writer::Writer(const std::string& path, const Metadata& metadata, std::vector<TensorInfo> tensors)
    : tensors_(std::move(tensors)) {
  const std::vector<std::byte> head = lay_out(path, metadata);
  sink_ = std::make_unique<FileSink>(path, size_bytes_);
  sink_->write(head);
}

Writer::Writer(std::vector<std::byte>& image, const Metadata& metadata, std::vector<TensorInfo> tensors)
    : tensors_(std::move(tensors)) {
  const std::vector<std::byte> head = lay_out("GGUF image in memory", metadata);
  sink_ = std::make_unique<MemorySink>(image, size_bytes_);
  sink_->write(head);
}

Writer::Writer(std::vector<TensorInfo> tensors) : tensors_(std::move(tensors)) {}
Writer::~Writer() = default;

uint64_t file_bytes(const Metadata& metadata, std::vector<TensorInfo> tensors) {
  Writer writer(std::move(tensors));
  writer.lay_out("GGUF file", metadata);
  return writer.size_bytes();
}

std::vector<std::byte> file_head(const Metadata& metadata, std::vector<TensorInfo> tensors) {
  return Writer(std::move(tensors)).lay_out("GGUF file", metadata);
}

std::vector<std::byte> Writer::lay_out(const std::string& label, const Metadata& metadata) {
  if (const OwnedValue* alignment = metadata.find("general.alignment")) {
    if (const std::string problem = alignment_problem(*alignment); !problem.empty())
      throw_error("{}: general.alignment: {}", label, problem);
    alignment_ = static_cast<uint64_t>(*alignment->view().as_int());
  }

  std::vector<std::byte> head;
  append_bytes(head, "GGUF", 4);
  append_number(head, kVersion);
  append_number(head, static_cast<uint64_t>(tensors_.size()));
  append_number(head, static_cast<uint64_t>(metadata.entries().size()));
  for (const Metadata::Entry& entry : metadata.entries()) {
    if (const std::string problem = name_problem(entry.key); !problem.empty())
      throw_error("{}: key {}", label, problem);
    const Value value = entry.value;
    append_string(head, entry.key);
    append_number(head, value.type());
    append_bytes(head, value.payload().data(), value.payload().size());
  }

  NameIndex names;
  uint64_t offset = 0;
  for (const TensorInfo& tensor : tensors_) {
    if (const std::string problem = name_problem(tensor.name); !problem.empty())
      throw_error("{}: tensor name {}", label, problem);
    if (const std::string problem = shape_problem(tensor.type, tensor.dims); !problem.empty())
      throw_error("{}: tensor {}: {}", label, quoted_name(tensor.name), problem);
    names.add(tensor.name);
    append_string(head, tensor.name);
    append_number(head, static_cast<uint32_t>(tensor.dims.size()));
    for (const int64_t dim : tensor.dims) append_number(head, dim);
    append_number(head, tensor.type.id());
    append_number(head, offset);
    offset = align_up(offset + tensor.bytes(), alignment_);
    if (offset >> 62 != 0)
      throw_error("{}: tensor {}: the file would exceed 2^62 bytes", label, quoted_name(tensor.name));
  }
  if (const auto repeated = names.sort())
    throw_error("{}: tensor name {} occurs twice", label, quoted_name(tensors_[*repeated].name));

  if (!tensors_.empty()) {
    head.resize(align_up(head.size(), alignment_));
    left_ = tensors_[0].bytes();
  }
  size_bytes_ = head.size() + offset;
  return head;
}

void Writer::write(std::span<const std::byte> data) {
  if (data.size() > left_)
    throw std::logic_error(fmt::format("gguf::Writer: {} bytes given where {} are left of tensor {}", data.size(),
                                       left_, current_ < tensors_.size() ? tensors_[current_].name : "(none)"));
  if (data.empty()) return;
  sink_->write(data);
  left_ -= data.size();
  if (left_ != 0) return;
  const uint64_t bytes = tensors_[current_].bytes();
  const std::vector<std::byte> padding(align_up(bytes, alignment_) - bytes);
  sink_->write(padding);
  if (++current_ < tensors_.size()) left_ = tensors_[current_].bytes();
}

void Writer::finish() {
  if (!sink_) throw std::logic_error("gguf::Writer: already finished");
  if (current_ < tensors_.size())
    throw std::logic_error(
        fmt::format("gguf::Writer: {} bytes of tensor {} are missing", left_, tensors_[current_].name));
  sink_->finish();
  sink_.reset();
}

} // namespace ridge::gguf
