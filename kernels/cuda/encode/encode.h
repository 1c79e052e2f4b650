// quant/encode/encode.h on a GPU, bit-identical. Needs no CUDA headers.
#pragma once

#include "quant/registry.h"

#include <memory>

namespace ridge::kernels::cuda {

// Keeps 400 MB of device and of page-locked memory, and 5 KB per resident thread (1.4 GB on an H200). Not thread-safe.
class Encoder {
 public:
  virtual ~Encoder() = default;

  virtual bool can_encode(quant::Type type) const = 0;

  // Re-encodes rows ([rows, cols], packed), with quant::encode_rows' bytes and Errors. cols: a multiple of both
  // block_weights. importance: [cols] or empty.
  virtual void encode_rows(quant::Type from, const std::byte* source, quant::Type to, int64_t rows, int64_t cols,
                           std::span<const float> importance, std::byte* out) = 0;
};

std::unique_ptr<Encoder> make_encoder(); // nullptr: no usable device

} // namespace ridge::kernels::cuda
