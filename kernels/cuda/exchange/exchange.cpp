#include "core/error.h"
#include "kernels/cuda/exchange/exchange_memory.h"
#include "kernels/cuda/runtime/context.h"
#include "kernels/cuda/runtime/device_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

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

// Another process's memory.
class OpenedMemory {
 public:
  OpenedMemory() = default;
  OpenedMemory(int device, std::span<const std::byte> handle) : device_(device) {
    cudaIpcMemHandle_t copy;
    if (handle.size() != sizeof(copy)) throw_error("CUDA: a rank's handle has {} bytes", handle.size());
    std::memcpy(&copy, handle.data(), sizeof(copy));
    const cudaError_t status = cudaIpcOpenMemHandle(&data_, copy, cudaIpcMemLazyEnablePeerAccess);
    if (status != cudaSuccess) {
      data_ = nullptr;
      cudaGetLastError();
      check(status, "cudaIpcOpenMemHandle");
    }
  }
  ~OpenedMemory() {
    if (!data_) return;
    const CurrentDevice current(device_);
    cudaIpcCloseMemHandle(data_);
  }
  OpenedMemory(OpenedMemory&& other) noexcept : device_(other.device_), data_(std::exchange(other.data_, nullptr)) {}
  OpenedMemory& operator=(OpenedMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    return *this;
  }
  void* data() const { return data_; }

 private:
  int device_ = 0;
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
  // Ranks of this process, or only one.
  Shared(std::span<const int> on, int of, int first, int64_t floats)
      : ranks(of), layout(mailbox_layout(of, floats)), opened(of), mailboxes(of), numbers(of),
        trouble(sizeof(Trouble)) {
    *static_cast<Trouble*>(trouble.data()) = {};
    const bool peers = on.size() == 1 || have_peer_access(on);
    if (peers) open_to_peers(on);
    for (int rank = first; const int device : on) {
      const CurrentDevice current(device);
      void* start = nullptr;
      if (peers) {
        on_device.emplace_back(layout.bytes(), "values that GPUs exchange");
        start = on_device.back().as();
      } else {
        on_host.push_back(std::make_unique<SharedHostMemory>(layout.bytes()));
        start = on_host.back()->data();
      }
      RIDGE_CUDA(cudaMemset(start, 0, layout.bytes()));
      mailboxes[rank] = mailbox_at(start);
      numbers[rank] = DeviceMemory(sizeof(ExchangeNumbers), "numbers of exchanges");
      const ExchangeNumbers begin = {1, 1};
      RIDGE_CUDA(cudaMemcpy(numbers[rank].as(), &begin, sizeof(begin), cudaMemcpyHostToDevice));
      RIDGE_CUDA(cudaDeviceSynchronize());
      ++rank;
    }
  }

  Mailbox mailbox_at(void* start) const {
    auto* bytes = static_cast<uint8_t*>(start);
    return {reinterpret_cast<Packet*>(bytes), reinterpret_cast<float*>(bytes + layout.packets),
            reinterpret_cast<uint32_t*>(bytes + layout.packets + layout.pieces)};
  }
  volatile Trouble* trouble_now() const { return static_cast<Trouble*>(trouble.data()); }

  const int ranks;
  const MailboxLayout layout;
  uint64_t patience_ns = 0;
  std::vector<DeviceMemory> on_device;
  std::vector<std::unique_ptr<SharedHostMemory>> on_host;
  std::vector<OpenedMemory> opened; // of ranks in other processes
  std::vector<Mailbox> mailboxes;   // by rank, as numbers
  std::vector<DeviceMemory> numbers;
  SharedHostMemory trouble;
};

void ExchangeRank::fail(const std::string& why) {
  host_->fail(why);
  shared_->trouble_now()->failed = 1;
}

int ExchangeRank::late_rank() const { return shared_->trouble_now()->late - 1; }

ExchangeArgs ExchangeRank::args() const {
  ExchangeArgs args = {};
  args.rank = rank();
  args.ranks = ranks();
  std::ranges::copy(shared_->mailboxes, args.mailboxes);
  args.most_pieces = shared_->layout.most_pieces;
  args.most_flags = shared_->layout.most_flags;
  args.numbers = numbers();
  args.trouble = static_cast<Trouble*>(shared_->trouble.data());
  args.patience_ns = shared_->patience_ns;
  return args;
}

ExchangeNumbers* ExchangeRank::numbers() const { return shared_->numbers[rank()].as<ExchangeNumbers>(); }

std::vector<std::unique_ptr<core::Communicator>> make_exchange(std::span<const int> devices, int64_t most_floats) {
  const auto ranks = static_cast<int>(devices.size());
  if (ranks > kMaxRanks) throw_error("CUDA: {} GPUs, and at most {} work together", ranks, kMaxRanks);
  for (const int device : devices)
    if (const DeviceInfo info = device_info(device); !info.usable)
      throw_error("CUDA: GPU {}: {}", device, info.problem);
  const auto shared = std::make_shared<ExchangeRank::Shared>(devices, ranks, 0, most_floats);
  auto host = core::make_thread_communicators(ranks);
  std::vector<std::unique_ptr<core::Communicator>> made;
  for (int rank = 0; rank < ranks; ++rank)
    made.push_back(std::make_unique<ExchangeRank>(shared, std::move(host[rank]), devices[rank]));
  return made;
}

namespace {

class ProcessPacketLink final : public PacketLink {
 public:
  ProcessPacketLink(int device, int rank, int ranks, int64_t most_floats)
      : device_(device), rank_(rank),
        shared_(std::make_shared<ExchangeRank::Shared>(std::span(&device, 1), ranks, rank, most_floats)) {
    shared_->patience_ns = static_cast<uint64_t>(kPatienceSeconds * 1e9);
  }

  std::vector<std::byte> handle() const override {
    const CurrentDevice current(device_);
    cudaIpcMemHandle_t handle;
    RIDGE_CUDA(cudaIpcGetMemHandle(&handle, shared_->on_device[0].as()));
    const auto bytes = std::as_bytes(std::span(&handle, 1));
    return {bytes.begin(), bytes.end()};
  }
  void open(std::span<const std::vector<std::byte>> handles) override {
    const CurrentDevice current(device_);
    for (int rank = 0; rank < shared_->ranks; ++rank) {
      if (rank == rank_) continue;
      shared_->opened[rank] = OpenedMemory(device_, handles[rank]);
      shared_->mailboxes[rank] = shared_->mailbox_at(shared_->opened[rank].data());
    }
  }
  std::unique_ptr<core::Communicator> connect(std::unique_ptr<core::Communicator> host) override {
    return std::make_unique<ExchangeRank>(shared_, std::move(host), device_);
  }

 private:
  const int device_, rank_;
  const std::shared_ptr<ExchangeRank::Shared> shared_;
};

} // namespace

std::unique_ptr<PacketLink> make_packet_link(int device, int rank, int ranks, int64_t most_floats) {
  if (ranks > kMaxRanks) throw_error("CUDA: {} GPUs, and at most {} exchange packets", ranks, kMaxRanks);
  const CurrentDevice current(device); // for host memory, too
  return std::make_unique<ProcessPacketLink>(device, rank, ranks, most_floats);
}

std::string late_rank(const core::Communicator& communicator) {
  const auto* exchange = dynamic_cast<const ExchangeRank*>(&communicator);
  const int rank = exchange ? exchange->late_rank() : -1;
  if (rank < 0) return "";
  return fmt::format("{} hangs: its values have not come for {:g} s",
                     rank == kUnknownRank ? "a rank" : fmt::format("rank {}", rank), kPatienceSeconds);
}

std::string bus_of(int device) {
  char bus[32] = "";
  RIDGE_CUDA(cudaDeviceGetPCIBusId(bus, sizeof(bus), device));
  return bus;
}

} // namespace ridge::kernels::cuda
