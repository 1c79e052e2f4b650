#include "kernels/cuda/cache/block_copy.h"

namespace ridge::kernels::cuda {
namespace {

template <typename Word>
__device__ void copy_words(const uint8_t* from, uint8_t* to, int64_t bytes) {
  for (int64_t i = threadIdx.x; i < bytes / static_cast<int64_t>(sizeof(Word)); i += blockDim.x)
    reinterpret_cast<Word*>(to)[i] = reinterpret_cast<const Word*>(from)[i];
}

// A cache may end within its last block.
__global__ void block_copy_kernel(BlockCopy copy) {
  const CachedHead head = copy.heads[blockIdx.x];
  const int64_t start = (copy.first + blockIdx.y) * head.width;
  const int64_t bytes = min(head.width, head.bytes - start);
  uint8_t* cached = head.data + copy.stream * head.stream_bytes + start;
  uint8_t* staged = copy.staged + blockIdx.y * copy.block_bytes + head.offset;
  const uint8_t* from = copy.save ? cached : staged;
  uint8_t* to = copy.save ? staged : cached;
  if ((reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to) | static_cast<uintptr_t>(bytes)) % 16 == 0)
    copy_words<uint4>(from, to, bytes);
  else
    copy_words<uint8_t>(from, to, bytes);
}

} // namespace

void launch_block_copy(const Launch& launch, const BlockCopy& copy) {
  if (copy.count == 0 || copy.head_count == 0) return;
  const dim3 grid(static_cast<unsigned>(copy.head_count), static_cast<unsigned>(copy.count));
  launch(block_copy_kernel, grid, 128, 0, copy);
}

} // namespace ridge::kernels::cuda
