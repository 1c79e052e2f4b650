// Pool of page-locked blocks. Locking takes ten times as long as filling, so a thread makes blocks ahead, in chunks of
// large pages.
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

  // May outlive the pool; null at the lock limit.
  Block take();
  // Keeps `count` ready.
  void expect(int64_t count);
  int64_t ready() const;

 private:
  // Does nothing once the pool is destroyed.
  struct Return {
    std::mutex mutex;
    PinnedBlocks* to;
  };

  std::vector<Block> make_chunk(int64_t blocks) const;
  void give_back(Block block);
  void add_chunk(std::unique_lock<std::mutex>& lock);
  void work();

  const int device_;
  const int64_t block_bytes_; // padded

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Block> ready_;
  int64_t made_ = 0, expected_ = 0;
  bool making_ = false, failed_ = false, stopping_ = false;
  std::thread thread_;
  const std::shared_ptr<Return> return_;
};

} // namespace ridge::kernels::cuda
