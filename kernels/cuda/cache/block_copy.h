// Rows of caches that are put together in blocks, and taken apart again, by one kernel: a copy for each head of each
// layer would take the host longer to ask for than all of it takes to cross the bus.
#pragma once

#include "kernels/cuda/runtime/device.h"

namespace ridge::kernels::cuda {

// What one head has in one layer: keys, values or their scales.
struct CachedHead {
  uint8_t* data;        // of stream 0
  int64_t stream_bytes; // from one stream's to the next one's
  int64_t bytes;        // of a stream's rows
  int64_t width;        // of a block, in bytes
  int64_t offset;       // in a block
};

struct BlockCopy {
  const CachedHead* heads; // in device memory
  int64_t head_count;
  uint8_t* staged; // `count` blocks, one behind the other; at most 65,535
  int64_t block_bytes;
  int32_t stream;
  int64_t first, count;
  bool save; // from the cache to `staged`, else back
};
void launch_block_copy(const Launch&, const BlockCopy&);

} // namespace ridge::kernels::cuda
