// Stubs for builds without CUDA.
#include "core/error.h"
#include "kernels/cuda/encode/encode.h"
#include "kernels/cuda/encode/hessian.h"
#include "kernels/cuda/exchange/exchange.h"
#include "kernels/cuda/exchange/nccl.h"
#include "kernels/cuda/executor/executor.h"
#include "kernels/cuda/microbench/ladder.h"
#include "kernels/cuda/microbench/microbench.h"
#include "kernels/cuda/plan/candidates.h"

namespace ridge::kernels::cuda {

DeviceInfo device_info(int) {
  DeviceInfo info;
  info.problem = "this ridge was built without CUDA";
  return info;
}

int device_count() { return 0; }

std::unique_ptr<core::Executor> make_cuda_executor(const core::Program&, const core::ExecutorConfig&,
                                                   const CudaOptions&) {
  throw Error("CUDA: " + device_info().problem + "; use --device cpu");
}

bool have_peer_access(std::span<const int>) { return false; }

std::vector<std::unique_ptr<core::Communicator>> make_exchange(std::span<const int>, int64_t) {
  throw Error("CUDA: " + device_info().problem);
}

std::unique_ptr<PacketLink> make_packet_link(int, int, int, int64_t) { throw Error("CUDA: " + device_info().problem); }

std::string late_rank(const core::Communicator&) { return ""; }

double time_sums(const core::Communicator&, int, int64_t, int) { throw Error("CUDA: " + device_info().problem); }

std::string bus_of(int) { return ""; }

std::unique_ptr<core::Communicator> make_nccl_communicator(std::unique_ptr<core::Communicator>, int, const NcclId&) {
  throw Error("CUDA: " + device_info().problem);
}

Ladder climb_ladder(int64_t) { throw Error("CUDA: " + device_info().problem); }

std::vector<core::Ceiling> measure_ceilings() { throw Error("CUDA: " + device_info().problem); }

core::Ceiling measure_f16_rate() { throw Error("CUDA: " + device_info().problem); }
std::unique_ptr<Encoder> make_encoder() { return nullptr; }

quant::MakeHessian hessian_maker(std::string& problem) {
  problem = device_info().problem;
  return nullptr;
}

bool shares_experts_with_cpu(const core::Executor&) { return false; }

std::string describe_rates(int) { return ""; }

DeviceLimits limits_for_plans(int) { return kPresumedLimits; }

MemoryPlan allocated_memory(const core::Executor&) { throw Error("CUDA: " + device_info().problem); }

std::vector<ProductWays> product_ways(core::Executor&, const core::Batch&) {
  throw Error("CUDA: " + device_info().problem);
}

void expect_sending(core::Executor&) {}

SentResult send_result_rows(core::Executor&, int64_t) { return {}; }

bool reads_sent_rows(const core::Executor&) { return false; }

void force_way(core::Executor&, const std::string&, const std::string&) {
  throw Error("CUDA: " + device_info().problem);
}

void set_way_factors(core::Executor&, const std::map<std::string, double>&) {
  throw Error("CUDA: " + device_info().problem);
}

int version_of_expected_times() { return kCostsVersion; }

bool fits(const core::Program&, const core::ExecutorConfig&, CudaOptions) { return false; }

double measure_read_bandwidth(int) { throw Error("CUDA: " + device_info().problem); }

} // namespace ridge::kernels::cuda
