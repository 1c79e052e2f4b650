#include "models/import/matrix.h"

#include "core/error.h"
#include "core/half.h"

#include <fmt/ranges.h>

#include <cstring>

namespace ridge::models::import {

void read_floats(const gguf::SafeTensor& tensor, int64_t first, int64_t count, float* out) {
  const auto each = [&](auto stored, auto convert) { // files need not align their data
    const std::byte* from = tensor.data.data() + first * static_cast<int64_t>(sizeof stored);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(&stored, from + i * static_cast<int64_t>(sizeof stored), sizeof stored);
      out[i] = convert(stored);
    }
  };
  switch (tensor.dtype) {
  case gguf::Dtype::F32: std::memcpy(out, tensor.data.data() + 4 * first, 4 * static_cast<size_t>(count)); break;
  case gguf::Dtype::F64: each(double{}, [](double x) { return static_cast<float>(x); }); break;
  case gguf::Dtype::F16: each(uint16_t{}, core::f32_from_f16); break;
  case gguf::Dtype::BF16: each(uint16_t{}, core::f32_from_bf16); break;
  default: throw_error("tensor {}: has type {}, expected numbers", tensor.name, gguf::name_of(tensor.dtype));
  }
}

Matrix MatrixReader::read(const std::string& name, int64_t rows, int64_t cols) const {
  const gguf::SafeTensor* weight = tensors_.find(name + ".weight");
  if (!weight)
    throw_error("tensor {}.weight is missing: the checkpoint is incomplete or config.json is another's", name);
  if (weight->shape != std::vector<int64_t>{rows, cols})
    throw_error("{}: tensor {} has shape [{}], but config.json makes it [{}, {}]", tensors_.path_of(*weight),
                weight->name, fmt::join(weight->shape, ", "), rows, cols);
  Matrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.dtype = weight->dtype;
  matrix.parts = {weight};
  matrix.floats = [weight, cols](int64_t first, int64_t count, float* out) {
    read_floats(*weight, first * cols, count * cols, out);
  };
  read_floats(*weight, 0, 0, nullptr); // throws for other types
  return matrix;
}

} // namespace ridge::models::import
