// The encoders of quant/encode.h on a CUDA device: the same searches compiled for it, hence the same bytes. Nothing
// here needs CUDA headers, a driver or a GPU to be included or linked.
#pragma once

#include "quant/registry.h"

#include <memory>

namespace ridge::kernels::cuda {

// Keeps its buffers and streams: 400 MB of device memory, as much page-locked host memory, and 5 KB of local memory for
// each thread that the device can hold at once (1.4 GB on an H200). One host thread at a time may use it.
class Encoder {
 public:
  virtual ~Encoder() = default;

  // All types of files.
  virtual bool can_encode(quant::Type type) const = 0;

  // Decodes rows of type `from` ([rows, cols], packed as in a file) on the device and encodes them as `to`, which must
  // be one that it can encode, with the bytes that quant::encode_rows gives for the decoded weights. cols: a multiple
  // of both types' block_weights. importance: [cols] or empty. Throws an Error as quant::encode_rows does.
  virtual void encode_rows(quant::Type from, const std::byte* source, quant::Type to, int64_t rows, int64_t cols,
                           std::span<const float> importance, std::byte* out) = 0;
};

std::unique_ptr<Encoder> make_encoder(); // nullptr where there is no usable device

} // namespace ridge::kernels::cuda
