#include "kernels/cuda/cache/pinned_blocks.h"

#include "core/error.h"
#include "core/host_device/round_up.h"
#include "kernels/cuda/runtime/context.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace ridge::kernels::cuda {
namespace {

using core::round_up;

constexpr int64_t kLargePage = 2 << 20;
constexpr int64_t kMaxChunkBytes = 32 << 20; // locking blocks other driver calls for a millisecond

// Page-locked, in large pages if possible.
class Chunk {
 public:
  explicit Chunk(int64_t bytes)
      : data_(static_cast<std::byte*>(std::aligned_alloc(kLargePage, round_up(bytes, kLargePage)))) {
    if (!data_) throw std::bad_alloc();
    madvise(data_, round_up(bytes, kLargePage), MADV_HUGEPAGE);
    std::memset(data_, 0, bytes); // outside the driver's lock
    if (const cudaError_t status = cudaHostRegister(data_, bytes, cudaHostRegisterDefault); status != cudaSuccess) {
      cudaGetLastError();
      std::free(data_);
      check(status, "cudaHostRegister");
    }
  }
  ~Chunk() {
    cudaHostUnregister(data_);
    std::free(data_);
  }
  Chunk(const Chunk&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
};

} // namespace

PinnedBlocks::PinnedBlocks(int device, size_t block_bytes)
    : device_(device), block_bytes_(round_up(std::max<int64_t>(static_cast<int64_t>(block_bytes), 1), 256)),
      return_(std::make_shared<Return>()) {
  return_->to = this;
}

PinnedBlocks::~PinnedBlocks() {
  {
    const std::scoped_lock lock(return_->mutex);
    return_->to = nullptr;
  }
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  const CurrentDevice current(device_);
  ready_.clear();
}

std::vector<PinnedBlocks::Block> PinnedBlocks::make_chunk(int64_t blocks) const {
  const CurrentDevice current(device_);
  const auto chunk = std::make_shared<Chunk>(blocks * block_bytes_);
  std::vector<Block> made;
  for (int64_t i = 0; i < blocks; ++i) made.emplace_back(chunk, chunk->data() + i * block_bytes_);
  return made;
}

// Doubles the pool; unlocks the mutex meanwhile.
void PinnedBlocks::add_chunk(std::unique_lock<std::mutex>& lock) {
  const int64_t bytes = std::clamp<int64_t>(made_ * block_bytes_, kLargePage, kMaxChunkBytes);
  const int64_t blocks = std::max<int64_t>(1, bytes / block_bytes_);
  making_ = true;
  lock.unlock();
  std::vector<Block> made;
  try {
    made = make_chunk(blocks);
  } catch (const Error&) { // no more memory can be locked
  } catch (const std::bad_alloc&) {
  }
  lock.lock();
  making_ = false;
  failed_ = made.empty();
  made_ += std::ssize(made);
  ready_.insert(ready_.end(), made.begin(), made.end());
  changed_.notify_all();
}

PinnedBlocks::Block PinnedBlocks::take() {
  std::unique_lock lock(mutex_);
  while (ready_.empty()) {
    if (failed_) return nullptr;
    making_ ? changed_.wait(lock) : add_chunk(lock);
  }
  Block block = std::move(ready_.back());
  ready_.pop_back();
  if (std::ssize(ready_) < expected_) changed_.notify_all();
  std::byte* data = block.get();
  return {data, [block = std::move(block), to = return_](std::byte*) mutable {
            const std::scoped_lock given(to->mutex);
            if (to->to) to->to->give_back(std::move(block));
          }};
}

void PinnedBlocks::give_back(Block block) {
  const std::scoped_lock lock(mutex_);
  if (std::ssize(ready_) <= expected_) ready_.push_back(std::move(block)); // one more, as locking is slow
}

void PinnedBlocks::expect(int64_t count) {
  const std::scoped_lock lock(mutex_);
  expected_ = count;
  if (std::ssize(ready_) >= expected_) return;
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  changed_.notify_all();
}

int64_t PinnedBlocks::ready() const {
  const std::scoped_lock lock(mutex_);
  return std::ssize(ready_);
}

void PinnedBlocks::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || (!making_ && !failed_ && std::ssize(ready_) < expected_); });
    if (stopping_) return;
    add_chunk(lock);
  }
}

} // namespace ridge::kernels::cuda
