// The tensors of a file as rows of f32, however the file keeps them: what quantizing and comparing read.
#pragma once

#include "gguf/gguf.h"
#include "gguf/writer.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ridge::models {

class WeightSource {
 public:
  WeightSource(const gguf::File& file, const gguf::Tensor& tensor);

  std::string_view name() const { return name_; }
  const std::vector<int64_t>& dims() const { return dims_; } // dims[0] contiguous
  std::string_view type_name() const { return tensor_->type.name(); }
  bool has_weights() const { return tensor_->type.format() != nullptr; } // no I32 and the like
  bool is_packed() const { return has_weights() && tensor_->type.format()->packed; }
  gguf::TensorType type() const { return tensor_->type; }
  uint64_t bytes() const { return tensor_->data.size(); }

  int64_t cols() const { return dims_[0]; }
  int64_t rows() const; // of all its matrices
  int64_t matrices() const { return dims_.size() > 2 ? rows() / dims_[1] : 1; }
  int64_t weights() const { return rows() * cols(); }

  // Rows [first, first + count), count * cols() floats. Threads may share a source. Only where has_weights().
  void decode(int64_t first, int64_t count, float* out) const;
  // The same rows as the file has them.
  std::span<const std::byte> packed(int64_t first, int64_t count) const;
  // They will not be read again soon: see gguf::File::release.
  void release(int64_t first, int64_t count) const;

  gguf::TensorInfo info() const { return {std::string(name_), type(), dims_}; }

 private:
  const gguf::File* file_;
  const gguf::Tensor* tensor_;
  std::string_view name_;
  std::vector<int64_t> dims_;
};

// In file order. The file must outlive them.
std::vector<WeightSource> weight_sources(const gguf::File& file);

} // namespace ridge::models
