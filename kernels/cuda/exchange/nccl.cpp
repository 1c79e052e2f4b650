#include "kernels/cuda/exchange/nccl.h"

#include "core/error.h"
#include "kernels/cuda/exchange/nccl_rank.h"
#include "kernels/cuda/runtime/context.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace ridge::kernels::cuda {
namespace {

constexpr double kStartSeconds = 60, kEndSeconds = 5;

// Work that may never end, in its thread.
class Attempt {
 public:
  Attempt(int device, std::function<void()> work) {
    std::thread([state = state_, device, work = std::move(work)]() mutable {
      std::string problem;
      try {
        RIDGE_CUDA(cudaSetDevice(device));
        work();
      } catch (const std::exception& error) {
        problem = error.what();
      }
      work = nullptr;
      const std::scoped_lock lock(state->mutex);
      state->problem = problem;
      state->done = true;
      state->changed.notify_all();
    }).detach();
  }
  bool ends_within(double seconds) const {
    std::unique_lock lock(state_->mutex);
    return state_->changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return state_->done; });
  }
  // Throws Error if the work did, a rank fails or it takes too long.
  void wait(const core::Communicator& ranks, const char* what) const {
    const auto begin = std::chrono::steady_clock::now();
    while (!ends_within(0.05)) {
      ranks.check();
      if (std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(kStartSeconds))
        throw_error("NCCL: {} took over {:g} s; NCCL_DEBUG=INFO shows why", what, kStartSeconds);
    }
    if (!state_->problem.empty()) throw Error(state_->problem);
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    std::string problem;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

void sum(void* communicator, const float* from, float* to, size_t floats, cudaStream_t stream) {
  nccl().expect(nccl().all_reduce(from, to, floats, NcclLibrary::kFloat, NcclLibrary::kSum, communicator, stream),
                "ncclAllReduce");
}

// Connections are made by first use, which is no work for a captured stream.
void connect(void* communicator) {
  constexpr size_t kMostFloats = 4 << 20;
  const DeviceMemory values(kMostFloats * sizeof(float), "NCCL's first sums");
  const Stream stream;
  RIDGE_CUDA(cudaMemsetAsync(values.as(), 0, values.bytes(), stream.handle));
  for (size_t floats = 1 << 10; floats <= kMostFloats; floats *= 4)
    sum(communicator, values.as<float>(), values.as<float>(), floats, stream.handle);
  RIDGE_CUDA(cudaStreamSynchronize(stream.handle));
}

} // namespace

struct NcclRank::Link {
  int device = 0;
  void* communicator = nullptr;
};

NcclRank::NcclRank(std::shared_ptr<Link> link, std::unique_ptr<core::Communicator> host)
    : link_(std::move(link)), host_(std::move(host)) {}

NcclRank::~NcclRank() {
  if (aborted_) return; // in fail()'s thread
  // Others may be gone.
  Attempt(link_->device, [link = link_] { nccl().destroy(link->communicator); }).ends_within(kEndSeconds);
}

// Running kernels end; the call may wait until captured graphs are destroyed.
void NcclRank::fail(const std::string& why) {
  host_->fail(why);
  if (!aborted_.exchange(true)) Attempt(link_->device, [link = link_] { nccl().abort(link->communicator); });
}

// A join is a sum, too: ranks' shares may be uneven.
void NcclRank::exchange(const ExchangeArgs& args, cudaStream_t stream) const {
  if (aborted_) return;
  const auto floats = static_cast<size_t>(args.rows * args.width);
  if (args.is_all_gather) {
    const size_t row_bytes = args.width * sizeof(float), part_bytes = args.part * sizeof(float);
    RIDGE_CUDA(cudaMemsetAsync(args.out, 0, floats * sizeof(float), stream));
    RIDGE_CUDA(cudaMemcpy2DAsync(args.out + args.first, row_bytes, args.x, part_bytes, part_bytes,
                                 static_cast<size_t>(args.rows), cudaMemcpyDeviceToDevice, stream));
  }
  sum(link_->communicator, args.is_all_gather ? args.out : args.x, args.out, floats, stream);
}

std::unique_ptr<core::Communicator> make_nccl_communicator(std::unique_ptr<core::Communicator> host, int device,
                                                           const NcclId& id) {
  const auto link = std::make_shared<NcclRank::Link>();
  link->device = device;
  Attempt(device, [link, id, rank = host->rank(), ranks = host->ranks()] {
    nccl().expect(nccl().init_rank(&link->communicator, ranks, id, rank), "ncclCommInitRank");
  }).wait(*host, "ncclCommInitRank");
  try {
    Attempt(device, [link] { connect(link->communicator); }).wait(*host, "its first sum");
  } catch (const Error&) {
    Attempt(device, [link] { nccl().abort(link->communicator); }); // ends its kernels
    throw;
  }
  return std::make_unique<NcclRank>(link, std::move(host));
}

} // namespace ridge::kernels::cuda
