// Tensors as rows of f32 in any format.
#pragma once

#include "gguf/writer.h"
#include "models/adapters/weight_change.h"
#include "models/file/planar.h"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace ridge::convert {

class WeightSource {
 public:
  WeightSource(const gguf::File& file, const gguf::Tensor& tensor);
  WeightSource(const gguf::File& file, models::PlanarWeight weight);

  std::string_view name() const { return name_; }
  const std::vector<int64_t>& dims() const { return dims_; } // dims[0] contiguous
  // For planar weights: the executors' type, which no file has.
  gguf::TensorType type() const { return type_; }
  bool has_weights() const { return type_.format() != nullptr; }
  bool is_planar() const { return planar_ != nullptr; }
  bool is_changed() const { return change_ != nullptr; }
  bool is_packed() const { return has_weights() && type_.format()->packed; }
  uint64_t bytes() const { return planar_ ? planar_->file_bytes() : tensor_->data.size(); }

  int64_t cols() const { return dims_[0]; }
  int64_t rows() const;
  int64_t matrices() const { return dims_.size() > 2 ? rows() / dims_[1] : 1; }
  int64_t weights() const { return rows() * cols(); }

  // Decodes [first, first + count) to count * cols() floats. Requires has_weights(). Thread-safe.
  void decode(int64_t first, int64_t count, float* out) const;
  // Adds the adapters' changes to decode()'s rows.
  void merge(std::span<const models::ScaledAdapter> adapters);
  // The encoded rows. Not for planar weights.
  std::span<const std::byte> packed(int64_t first, int64_t count) const;
  // Releases pages that are not needed soon (gguf::File::release).
  void release(int64_t first, int64_t count) const;

  gguf::TensorInfo info() const { return {std::string(name_), type_, dims_}; }

 private:
  const gguf::File* file_;
  const gguf::Tensor* tensor_ = nullptr;
  std::shared_ptr<const models::PlanarWeight> planar_;
  std::shared_ptr<const models::WeightChange> change_;
  std::string_view name_;
  gguf::TensorType type_;
  std::vector<int64_t> dims_;
};

// In file order. The file must outlive them.
std::vector<WeightSource> weight_sources(const gguf::File& file);
// Like weight_sources(), with separate tensors of planar weights.
std::vector<WeightSource> stored_tensors(const gguf::File& file);

} // namespace ridge::convert
