// The tensors of the GGUF file that a checkpoint's matrices become, and functions that make their bytes piece by piece.
#pragma once

#include "convert/import/matrix.h"
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

// The order of the rows of llama's q and k. Rope rotates element i of a head with element i + d/2 in the checkpoint,
// and with its neighbour in GGUF. Row r of the output is row source(r) of the checkpoint, which is in the same head.
struct RowOrder {
  int64_t head_dim = 0; // 0: rows stay where they are
  int64_t source(int64_t r) const {
    if (head_dim == 0) return r;
    const int64_t head = r / head_dim, within = r % head_dim;
    return head * head_dim + within % 2 * (head_dim / 2) + within / 2;
  }
};

// The tensors that hold `matrices`: one, or a layer's experts, all of one shape. Their names begin with `name`. Plain
// numbers are written in `type`, or in their own type without one. Packed matrices become the GGUF type that holds the
// same numbers, if there is one. Otherwise they become planar weights (models/planar.h), and `planar_scheme` is set to
// their scheme. Throws Error if the matrices differ in kind, or hold numbers that no GGUF type and no scheme can hold.
std::vector<Output> outputs_of(std::vector<Matrix> matrices, const std::string& name, RowOrder order,
                               std::optional<quant::Type> type, std::string& planar_scheme);

} // namespace ridge::convert::import
