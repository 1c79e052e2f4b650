#include "convert/weight_source.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace ridge::convert {

WeightSource::WeightSource(const gguf::File& file, const gguf::Tensor& tensor)
    : file_(&file), tensor_(&tensor), name_(tensor.name), type_(tensor.type),
      dims_(tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims) {}

WeightSource::WeightSource(const gguf::File& file, models::PlanarWeight weight)
    : file_(&file), planar_(std::make_shared<const models::PlanarWeight>(std::move(weight))), name_(planar_->name()),
      type_(planar_->type()), dims_({planar_->cols(), planar_->rows()}) {
  if (planar_->count() > 1) dims_.push_back(planar_->count());
}

int64_t WeightSource::rows() const {
  int64_t rows = 1;
  for (size_t i = 1; i < dims_.size(); ++i) rows *= dims_[i];
  return rows;
}

std::span<const std::byte> WeightSource::packed(int64_t first, int64_t count) const {
  const int64_t row_bytes = type_.row_bytes(cols());
  return tensor_->data.subspan(static_cast<size_t>(first * row_bytes), static_cast<size_t>(count * row_bytes));
}

void WeightSource::decode(int64_t first, int64_t count, float* out) const {
  if (planar_)
    planar_->decode(first, count, out);
  else
    type_.format()->decode(packed(first, count).data(), count * cols(), out);
  if (change_) change_->add_to(first, count, out);
}

void WeightSource::merge(std::span<const models::ScaledAdapter> adapters) {
  auto change = std::make_shared<const models::WeightChange>(adapters, *file_, std::string(name_), cols(),
                                                             rows() / matrices(), matrices());
  if (!change->empty()) change_ = std::move(change);
}

void WeightSource::release(int64_t first, int64_t count) const {
  if (!planar_) return file_->release(*tensor_, packed(first, count));
  if (first + count < rows()) return; // planar parts are released together
  for (const gguf::Tensor* part : planar_->tensors()) file_->release(*part, part->data);
}

std::vector<WeightSource> stored_tensors(const gguf::File& file) {
  std::vector<WeightSource> sources;
  for (const gguf::Tensor& tensor : file.tensors()) sources.emplace_back(file, tensor);
  return sources;
}

std::vector<WeightSource> weight_sources(const gguf::File& file) {
  std::map<const gguf::Tensor*, models::PlanarWeight>
      planar_by_first_tensor; // a planar weight takes the place of its first tensor
  std::set<const gguf::Tensor*> parts;
  const auto add = [&](const std::string& name) {
    auto weight = models::PlanarWeight::find(file, name);
    if (!weight) return;
    const std::vector<const gguf::Tensor*> tensors = weight->tensors();
    parts.insert(tensors.begin(), tensors.end());
    planar_by_first_tensor.emplace(*std::ranges::min_element(tensors), std::move(*weight));
  };
  for (const std::string& name : models::PlanarWeight::names(file)) add(name);
  for (const gguf::Tensor& tensor : file.tensors())
    if (tensor.type == quant::Type::NVFP4) add(std::string(tensor.name));
  std::vector<WeightSource> sources;
  for (const gguf::Tensor& tensor : file.tensors()) {
    if (const auto begun = planar_by_first_tensor.find(&tensor); begun != planar_by_first_tensor.end())
      sources.emplace_back(file, std::move(begun->second));
    else if (!parts.contains(&tensor))
      sources.emplace_back(file, tensor);
  }
  return sources;
}

} // namespace ridge::convert
