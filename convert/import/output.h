// What a checkpoint's matrices become in the GGUF file: the tensors, and how their bytes are made, piece by piece.
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
  std::vector<const gguf::SafeTensor*> parts; // done with once it is written
};

// llama's q and k: the checkpoint rotates element i of a head with i + d/2, the GGUF form with its neighbour. Row r of
// the output is row source(r) of the checkpoint; rows stay in their head.
struct RowOrder {
  int64_t head_dim = 0; // 0: rows stay where they are
  int64_t source(int64_t r) const {
    if (head_dim == 0) return r;
    const int64_t head = r / head_dim, within = r % head_dim;
    return head * head_dim + within % 2 * (head_dim / 2) + within / 2;
  }
};

// The tensors that hold `matrices` (one, or a layer's experts, all of one shape), W being `name` + ".weight". Plain
// numbers become `type`, or what they are. Packed ones become the GGUF type that holds the same numbers, where there is
// one, else the planar form of models/planar.h, in the scheme that `planar_scheme` names afterwards. Throws Error where
// the matrices differ in kind or hold what no GGUF type and no scheme can.
std::vector<Output> outputs_of(std::vector<Matrix> matrices, const std::string& name, RowOrder order,
                               std::optional<quant::Type> type, std::string& planar_scheme);

} // namespace ridge::convert::import
