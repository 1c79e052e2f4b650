#include "kernels/cuda/exchange/exchange_memory.h"
#include "kernels/cuda/runtime/context.h"
#include "kernels/cuda/runtime/device_info.h"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

class SharedHostMemory {
 public:
  explicit SharedHostMemory(size_t bytes) {
    RIDGE_CUDA(cudaHostAlloc(&data_, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
  }
  ~SharedHostMemory() { cudaFreeHost(data_); }
  SharedHostMemory(const SharedHostMemory&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

void open_to_peers(std::span<const int> devices) {
  for (const int from : devices) {
    const CurrentDevice current(from);
    for (const int to : devices) {
      if (from == to) continue;
      const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
      if (status == cudaErrorPeerAccessAlreadyEnabled)
        cudaGetLastError();
      else
        check(status, "cudaDeviceEnablePeerAccess");
    }
  }
}

} // namespace

bool have_peer_access(std::span<const int> devices) {
  for (const int from : devices)
    for (const int to : devices) {
      int can = 1;
      if (from != to) RIDGE_CUDA(cudaDeviceCanAccessPeer(&can, from, to));
      if (!can) return false;
    }
  return true;
}

struct ExchangeRank::Shared {
  Shared(std::span<const int> on, int64_t floats)
      : devices(on.begin(), on.end()), layout(mailbox_layout(static_cast<int>(on.size()), floats)),
        failed(sizeof(int)) {
    *static_cast<int*>(failed.data()) = 0;
    const bool peers = have_peer_access(devices);
    if (peers) open_to_peers(devices);
    for (const int device : devices) {
      const CurrentDevice current(device);
      uint8_t* start = nullptr;
      if (peers) {
        on_device.emplace_back(layout.bytes(), "values that GPUs exchange");
        start = on_device.back().as();
      } else {
        on_host.push_back(std::make_unique<SharedHostMemory>(layout.bytes()));
        start = static_cast<uint8_t*>(on_host.back()->data());
      }
      RIDGE_CUDA(cudaMemset(start, 0, layout.bytes()));
      mailboxes.push_back({reinterpret_cast<Packet*>(start), reinterpret_cast<float*>(start + layout.packets),
                           reinterpret_cast<uint32_t*>(start + layout.packets + layout.pieces)});
      numbers.emplace_back(sizeof(ExchangeNumbers), "numbers of exchanges");
      const ExchangeNumbers begin = {1, 1};
      RIDGE_CUDA(cudaMemcpy(numbers.back().as(), &begin, sizeof(begin), cudaMemcpyHostToDevice));
      RIDGE_CUDA(cudaDeviceSynchronize());
    }
  }

  const std::vector<int> devices;
  const MailboxLayout layout;
  std::vector<DeviceMemory> on_device, numbers;
  std::vector<std::unique_ptr<SharedHostMemory>> on_host;
  std::vector<Mailbox> mailboxes;
  SharedHostMemory failed;
};

void ExchangeRank::fail(const std::string& why) {
  host_->fail(why);
  *static_cast<volatile int*>(shared_->failed.data()) = 1;
}

ExchangeArgs ExchangeRank::args() const {
  ExchangeArgs args = {};
  args.rank = rank();
  args.ranks = ranks();
  std::ranges::copy(shared_->mailboxes, args.mailboxes);
  args.most_pieces = shared_->layout.most_pieces;
  args.most_flags = shared_->layout.most_flags;
  args.numbers = numbers();
  args.failed = static_cast<const int*>(shared_->failed.data());
  return args;
}

ExchangeNumbers* ExchangeRank::numbers() const { return shared_->numbers[rank()].as<ExchangeNumbers>(); }

std::vector<std::unique_ptr<core::Communicator>> make_exchange(std::span<const int> devices, int64_t most_floats) {
  const auto ranks = static_cast<int>(devices.size());
  if (ranks > kMaxRanks) throw_error("CUDA: {} GPUs requested, at most {} are supported", ranks, kMaxRanks);
  for (const int device : devices)
    if (const DeviceInfo info = device_info(device); !info.usable)
      throw_error("CUDA: GPU {}: {}", device, info.problem);
  const auto shared = std::make_shared<ExchangeRank::Shared>(devices, most_floats);
  auto host = core::make_thread_communicators(ranks);
  std::vector<std::unique_ptr<core::Communicator>> made;
  for (int rank = 0; rank < ranks; ++rank)
    made.push_back(std::make_unique<ExchangeRank>(shared, std::move(host[rank]), devices[rank]));
  return made;
}

} // namespace ridge::kernels::cuda
