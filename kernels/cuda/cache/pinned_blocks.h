// Blocks of page-locked host memory, to and from which the copy engine works at full speed. Locking memory takes
// over ten times as long as filling it from the GPU: the system has to find and clear the pages first. So blocks are
// cut from chunks of large pages, and a thread makes as many ahead as are expected to be wanted. A block
// that is free again is given out once more, if more are expected than are ready.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace ridge::kernels::cuda {

class PinnedBlocks {
 public:
  using Block = std::shared_ptr<std::byte>;

  PinnedBlocks(int device, size_t block_bytes);
  ~PinnedBlocks();

  // A block, which may outlive this. Null where no more memory can be locked.
  Block take();
  // From now on the thread keeps so many ready.
  void expect(int64_t count);
  int64_t ready() const;

 private:
  // Takes back a block that is free again; does nothing once the pool is gone.
  struct Return {
    std::mutex mutex;
    PinnedBlocks* to;
  };

  std::vector<Block> make_chunk(int64_t blocks) const;
  void give_back(Block block);
  void add_chunk(std::unique_lock<std::mutex>& lock);
  void work();

  const int device_;
  const int64_t block_bytes_; // of a block's place in its chunk

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Block> ready_;
  int64_t made_ = 0, expected_ = 0;
  bool making_ = false, failed_ = false, stopping_ = false;
  std::thread thread_; // from the first expect() on
  const std::shared_ptr<Return> return_;
};

} // namespace ridge::kernels::cuda
