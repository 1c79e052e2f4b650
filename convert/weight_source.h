// The matrices and vectors of a file as rows of f32, in whatever form the file holds them. Quantizing and comparing
// read them through this.
#pragma once

#include "gguf/writer.h"
#include "models/adapters/weight_change.h"
#include "models/planar.h"

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
  // For a planar weight this is the type that executors run it in, which no file holds.
  gguf::TensorType type() const { return type_; }
  bool has_weights() const { return type_.format() != nullptr; } // false for I32 and similar types
  bool is_planar() const { return planar_ != nullptr; }
  bool is_changed() const { return change_ != nullptr; }
  bool is_packed() const { return has_weights() && type_.format()->packed; }
  uint64_t bytes() const { return planar_ ? planar_->file_bytes() : tensor_->data.size(); }

  int64_t cols() const { return dims_[0]; }
  int64_t rows() const; // of all its matrices
  int64_t matrices() const { return dims_.size() > 2 ? rows() / dims_[1] : 1; }
  int64_t weights() const { return rows() * cols(); }

  // Decodes rows [first, first + count) to count * cols() floats. Needs has_weights(). Threads may share a source.
  void decode(int64_t first, int64_t count, float* out) const;
  // Adds what adapters add to the rows that decode() gives; nothing where none changes them.
  void merge(std::span<const models::ScaledAdapter> adapters);
  // The same rows as the file has them. Not for planar weights.
  std::span<const std::byte> packed(int64_t first, int64_t count) const;
  // Gives the memory of rows back that will not be read again soon (gguf::File::release).
  void release(int64_t first, int64_t count) const;

  gguf::TensorInfo info() const { return {std::string(name_), type_, dims_}; }

 private:
  const gguf::File* file_;
  const gguf::Tensor* tensor_ = nullptr; // or
  std::shared_ptr<const models::PlanarWeight> planar_;
  std::shared_ptr<const models::WeightChange> change_; // null: none
  std::string_view name_;
  gguf::TensorType type_;
  std::vector<int64_t> dims_;
};

// In file order. The file must outlive them.
std::vector<WeightSource> weight_sources(const gguf::File& file);
// The same, but each tensor of a planar weight for itself.
std::vector<WeightSource> stored_tensors(const gguf::File& file);

} // namespace ridge::convert
