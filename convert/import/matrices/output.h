// Output tensors, written in pieces.
#pragma once

#include "convert/import/matrices/matrix.h"
#include "gguf/writer.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ridge::convert::import {

using Sink = std::function<void(std::span<const std::byte>)>;

struct Output {
  gguf::TensorInfo info;
  std::function<void(const Sink&)> write;
  std::vector<const gguf::SafeTensor*> parts; // sources not needed afterwards
};

// For one matrix or a layer's experts of equal shape; names begin with `name`. Plain numbers use `type` or stay. Packed
// ones use an equivalent GGUF type, else planar weights (models/file/planar.h) with `planar_scheme`. Throws Error for
// mixed kinds and unrepresentable numbers.
std::vector<Output> outputs_of(std::vector<Matrix> matrices, const std::string& name, std::optional<quant::Type> type,
                               std::string& planar_scheme);

// F32, from one-column matrices: one, or one per expert.
Output vector_output(std::vector<Matrix> vectors, std::string name, std::vector<int64_t> dims);

// From I64. Throws Error for other types and for negative numbers.
std::vector<uint64_t> integers(const gguf::SafeTensor& tensor, const std::string& path);

// I32 from I64 or I32. Throws Error for other types and larger numbers.
Output integer_output(const gguf::SafeTensor& tensor, const std::string& path, std::string name);

} // namespace ridge::convert::import
