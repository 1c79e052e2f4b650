// Result rows on their way to the host. Executors on the same device find them by their host address and read them
// where they were made, until they are overwritten; so encoded pictures do not cross the bus twice.
#pragma once

#include "kernels/cuda/cache/pinned_blocks.h"
#include "kernels/cuda/runtime/device.h"

#include <memory>

namespace ridge::kernels::cuda {

// The memory outlives the sender.
class SentRows {
 public:
  SentRows(PinnedBlocks::Block block, const float* made, size_t bytes, int device, cudaStream_t stream);
  ~SentRows();
  SentRows(const SentRows&) = delete;

  const float* host() const { return reinterpret_cast<const float*>(block_.get()); }
  void arrive() const { RIDGE_CUDA(cudaEventSynchronize(sent_.handle)); } // waits until the host may read them

 private:
  friend class RowSender;
  friend void copy_given_rows(const float*, size_t, float*, int, cudaStream_t);

  const PinnedBlocks::Block block_;
  const float* made_; // on the device; null: overwritten
  const size_t bytes_;
  const int device_;
  Event sent_;
};

// Sends an executor's rows, the latest of which stay on the device.
class RowSender {
 public:
  RowSender(int device, size_t most_bytes) : device_(device), blocks_(device, most_bytes) {}
  ~RowSender();

  // Hint: the first send() is soon, and its memory takes long to lock.
  void expect() { blocks_.expect(1); }
  // The rows must be complete. Null if no more memory can be locked.
  std::shared_ptr<const SentRows> send(const float* rows, size_t bytes);
  // Later work of `stream` may overwrite the rows.
  void give_up(cudaStream_t stream);

 private:
  std::shared_ptr<SentRows> take_last();

  const int device_;
  PinnedBlocks blocks_;
  Stream stream_;
  std::weak_ptr<SentRows> last_;
};

// Copies rows that the host may not have yet, if they were sent, to this device.
void copy_given_rows(const float* host, size_t bytes, float* to, int device, cudaStream_t stream);

} // namespace ridge::kernels::cuda
