// What each of a checkpoint's tensors becomes is planned first, checked by building the model's Program of the planned
// shapes, and only then written, row by row.
#include "convert/import/config.h"
#include "convert/import/generation.h"
#include "convert/import/import.h"
#include "convert/import/plan.h"
#include "convert/import/tokenizer.h"
#include "core/error.h"
#include "gguf/safetensors.h"
#include "gguf/writer.h"
#include "models/model.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sys/mman.h>

namespace ridge::convert::import {
namespace {

// A GGUF image whose tensors hold zeros, of which no page takes memory.
class ZeroImage {
 public:
  ZeroImage(const std::vector<std::byte>& head, uint64_t size)
      : size_(size),
        bytes_(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (bytes_ == MAP_FAILED) throw_error("no address space for a file of {} bytes", size);
    std::memcpy(bytes_, head.data(), head.size());
  }
  ~ZeroImage() { ::munmap(bytes_, size_); }
  ZeroImage(const ZeroImage&) = delete;
  ZeroImage& operator=(const ZeroImage&) = delete;
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(bytes_), size_}; }

 private:
  uint64_t size_;
  void* bytes_;
};

// Throws Error unless the tensors of these shapes are all that a model of these hyperparameters has.
void check_model(const gguf::Metadata& metadata, const Plan& plan, const std::string& folder) {
  const std::vector<std::byte> head = gguf::file_head(metadata, plan.shapes);
  const ZeroImage image(head, gguf::file_bytes(metadata, plan.shapes));
  const auto file = gguf::File::from_span(image.bytes(), folder);
  for (const Output& output : plan.outputs) { // factors of rope are read when a Program is built
    if (!output.parts.empty() || !output.info.name.starts_with("rope_f")) continue;
    std::byte* to = image.bytes().data() + (file.find_tensor(output.info.name)->data.data() - image.bytes().data());
    output.write([&](std::span<const std::byte> bytes) { std::ranges::copy(bytes, to); });
  }
  try {
    models::build_program(file);
  } catch (const Error& error) {
    throw_error("the checkpoint's tensors are not those of the model that its config.json describes: {}", error.what());
  }
}

// general.file_type for files that are plainly of one type.
std::optional<uint32_t> file_type(quant::Type type) {
  switch (type) {
  case quant::Type::F32: return 0;
  case quant::Type::F16: return 1;
  case quant::Type::Q4_0: return 2;
  case quant::Type::Q8_0: return 7;
  case quant::Type::BF16: return 32;
  case quant::Type::MXFP4: return 38;
  case quant::Type::NVFP4: return 39;
  default: return std::nullopt;
  }
}

std::optional<quant::Type> parse_type(const std::string& name) {
  if (name.empty()) return std::nullopt;
  const quant::FormatInfo* format = quant::find_format(name);
  if (!format) throw_error("unknown type '{}'", name);
  return format->type;
}

std::string model_name(const std::string& folder) {
  std::filesystem::path path = std::filesystem::weakly_canonical(folder);
  if (path.filename().empty()) path = path.parent_path();
  return path.filename().string();
}

} // namespace

ConvertReport convert(const core::ConvertRequest& request, const ConvertProgress& progress) {
  const std::string& folder = request.input;
  const std::optional<quant::Type> type = parse_type(request.type);
  gguf::Metadata metadata;
  metadata.set("general.architecture", ""); // first in the file, by custom
  metadata.set("general.type", "model");
  metadata.set("general.name", model_name(folder));
  JsonFiles files(folder);
  Config config = read_config(files, metadata);
  metadata.set("general.architecture", config.architecture->name);

  const gguf::Safetensors tensors = gguf::Safetensors::open(folder);
  Plan plan(tensors, config, type);
  plan.run();
  check_model(metadata, plan, folder);
  if (plan.has_drafts) config.notes.push_back("layers that draft tokens are left out");
  for (const Output& output : plan.outputs)
    if (output.info.name == "blk.0.ffn_down.weight" || output.info.name == "blk.0.ffn_down_exps.weight")
      if (const auto* format = output.info.type.format())
        if (const auto type = file_type(format->type)) metadata.set("general.file_type", *type);
  metadata.set("general.quantization_version", uint32_t{2});
  if (!plan.method().empty()) metadata.set("ridge.quant.source", plan.method());
  if (!plan.planar_scheme.empty()) metadata.set("ridge.quant.scheme", plan.planar_scheme);
  read_sampling(files, metadata, config.notes);
  read_tokenizer(files, config.vocab, metadata, config.notes);

  std::vector<gguf::TensorInfo> infos;
  for (const Output& output : plan.outputs) infos.push_back(output.info);
  gguf::Writer writer(request.output, metadata, infos);
  int64_t done = 0;
  for (const Output& output : plan.outputs) {
    output.write([&](std::span<const std::byte> bytes) {
      writer.write(bytes);
      done += std::ssize(bytes);
      if (progress) progress(done, static_cast<int64_t>(writer.size_bytes()));
    });
    for (const gguf::SafeTensor* part : output.parts) tensors.release(*part);
    tensors.check();
  }
  writer.finish();
  return {std::ssize(plan.outputs), static_cast<int64_t>(writer.size_bytes()), config.notes};
}

} // namespace ridge::convert::import
