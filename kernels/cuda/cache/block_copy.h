// Gathers cache rows into blocks in one kernel: per-head copies would cost more host time than the transfer.
#pragma once

#include "kernels/cuda/runtime/device.h"

namespace ridge::kernels::cuda {

// Keys, values or scales of a layer.
struct CachedHead {
  uint8_t* data; // of stream 0
  int64_t stream_bytes;
  int64_t bytes; // of a stream's rows
  int64_t width; // bytes
  int64_t offset;
};

struct BlockCopy {
  const CachedHead* heads; // on the device
  int64_t head_count;
  uint8_t* staged; // at most 65,535 blocks
  int64_t block_bytes;
  int32_t stream;
  int64_t first, count;
  bool save; // to `staged`; else to the cache
};
void launch_block_copy(const Launch&, const BlockCopy&);

} // namespace ridge::kernels::cuda
