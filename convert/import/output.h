// The tensors of the GGUF file that a checkpoint's matrices become, and functions that make their bytes piece by piece.
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
  std::vector<const gguf::SafeTensor*> parts; // tensors that are not needed after it is written
};

// The tensors that hold `matrices`: one, or a layer's experts, all of one shape. Their names begin with `name`. Plain
// numbers are written in `type`, or in their own type without one. Packed matrices become the GGUF type that holds the
// same numbers, if there is one. Otherwise they become planar weights (models/planar.h), and `planar_scheme` is set to
// their scheme. Throws Error if the matrices differ in kind, or hold numbers that no GGUF type and no scheme can hold.
std::vector<Output> outputs_of(std::vector<Matrix> matrices, const std::string& name, std::optional<quant::Type> type,
                               std::string& planar_scheme);

// The tensor that holds vectors, which are matrices with one column: one, or one per expert. It is F32.
Output vector_output(std::vector<Matrix> vectors, std::string name, std::vector<int64_t> dims);

} // namespace ridge::convert::import
