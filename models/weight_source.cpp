#include "models/weight_source.h"

namespace ridge::models {

WeightSource::WeightSource(const gguf::File& file, const gguf::Tensor& tensor)
    : file_(&file), tensor_(&tensor), name_(tensor.name), dims_(tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims) {}

int64_t WeightSource::rows() const {
  int64_t rows = 1;
  for (size_t i = 1; i < dims_.size(); ++i) rows *= dims_[i];
  return rows;
}

std::span<const std::byte> WeightSource::packed(int64_t first, int64_t count) const {
  const int64_t row_bytes = tensor_->type.row_bytes(cols());
  return tensor_->data.subspan(static_cast<size_t>(first * row_bytes), static_cast<size_t>(count * row_bytes));
}

void WeightSource::decode(int64_t first, int64_t count, float* out) const {
  tensor_->type.format()->decode(packed(first, count).data(), count * cols(), out);
}

void WeightSource::release(int64_t first, int64_t count) const { file_->release(*tensor_, packed(first, count)); }

std::vector<WeightSource> weight_sources(const gguf::File& file) {
  std::vector<WeightSource> sources;
  for (const gguf::Tensor& tensor : file.tensors()) sources.emplace_back(file, tensor);
  return sources;
}

} // namespace ridge::models
