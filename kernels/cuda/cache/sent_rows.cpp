#include "kernels/cuda/cache/sent_rows.h"

#include "kernels/cuda/runtime/context.h"

#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace ridge::kernels::cuda {
namespace {

struct Known {
  std::mutex mutex;
  std::map<const float*, SentRows*, std::greater<>> by_address;
};

Known& known() {
  static Known* all = new Known; // outlives every static object that holds rows
  return *all;
}

} // namespace

SentRows::SentRows(PinnedBlocks::Block block, const float* made, size_t bytes, int device, cudaStream_t stream)
    : block_(std::move(block)), made_(made), bytes_(bytes), device_(device) {
  RIDGE_CUDA(cudaMemcpyAsync(block_.get(), made, bytes, cudaMemcpyDeviceToHost, stream));
  RIDGE_CUDA(cudaEventRecord(sent_.handle, stream));
  const std::scoped_lock lock(known().mutex);
  known().by_address[host()] = this;
}

SentRows::~SentRows() {
  {
    const std::scoped_lock lock(known().mutex);
    known().by_address.erase(host());
  }
  cudaEventSynchronize(sent_.handle); // the block may be given out again
}

std::shared_ptr<const SentRows> RowSender::send(const float* rows, size_t bytes) {
  PinnedBlocks::Block block = blocks_.take();
  if (!block) return nullptr;
  expect(); // the caller will likely send rows again
  const auto sent = std::make_shared<SentRows>(std::move(block), rows, bytes, device_, stream_.handle);
  last_ = sent;
  return sent;
}

// Readers hold the lock until they have read.
std::shared_ptr<SentRows> RowSender::take_last() {
  std::shared_ptr<SentRows> last = std::exchange(last_, {}).lock();
  if (last) {
    const std::scoped_lock lock(known().mutex);
    last->made_ = nullptr;
  }
  return last;
}

void RowSender::give_up(cudaStream_t stream) {
  if (const auto last = take_last()) RIDGE_CUDA(cudaStreamWaitEvent(stream, last->sent_.handle));
}

RowSender::~RowSender() {
  const CurrentDevice current(device_);
  take_last();
  cudaStreamSynchronize(stream_.handle);
}

void copy_given_rows(const float* host, size_t bytes, float* to, int device, cudaStream_t stream) {
  const std::scoped_lock lock(known().mutex);
  const auto found = known().by_address.lower_bound(host); // the last one that does not begin behind `host`
  if (found != known().by_address.end() &&
      host + bytes / sizeof(float) <= found->first + found->second->bytes_ / sizeof(float)) {
    const SentRows& rows = *found->second;
    if (rows.made_ && rows.device_ == device) {
      RIDGE_CUDA(cudaMemcpyAsync(to, rows.made_ + (host - found->first), bytes, cudaMemcpyDeviceToDevice, stream));
      RIDGE_CUDA(cudaStreamSynchronize(stream));
      return;
    }
    RIDGE_CUDA(cudaStreamWaitEvent(stream, rows.sent_.handle));
  }
  RIDGE_CUDA(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, stream));
}

} // namespace ridge::kernels::cuda
