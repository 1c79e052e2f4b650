// Runs a Program on an NVIDIA GPU. This header needs no CUDA.
#pragma once

#include "core/executor.h"
#include "kernels/cuda/plan/cpu_experts.h"
#include "kernels/cuda/plan/memory_plan.h"
#include "kernels/cuda/runtime/device_info.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::kernels::cuda {

struct CudaOptions {
  int device = 0;
  std::function<void(double done_bytes, double total_bytes)> upload_progress;
  bool upload = true; // false: only allocates, see fits()
  // An executor on this device, to share equal weights with; they outlive it.
  const core::Executor* weights_of = nullptr;
  // Routed experts stay in page-locked host memory; free GPU memory has copies of the most used
  // (experts/expert_cache.h).
  bool experts_on_host = false;
  // Bytes of host memory for experts; -1: unlimited. Others stay in the file (experts/filed_experts.h).
  double host_limit = -1;
  CpuExpertOptions cpu_experts; // of those in host memory
  double memory_limit = 0;      // GPU memory in bytes; 0: all that is free
  int64_t most_copies = -1;     // for tests: copied experts per layer; -1: unlimited
  // For tests.
  bool fuse = true, graphs = true, overlap = true, dataflow_sync = true;
  // For tests: chooses products as for at least so many rows and columns.
  int64_t least_side = 0;
  // By way: factor on its expected time (plan/candidates.h).
  std::map<std::string, double> way_factors;
  // For tests: forces a way where it fits.
  std::string way;
  // For tests: decides as on this compute capability (75, 80, 86, 89) with the chip's code (docs/cuda.md); 0: the
  // chip's.
  int as_compute = 0;
};

// Turns graphs, overlap and dataflow sync off if `serial` (RIDGE_CUDA_SERIAL; may be null) is set and not "0".
// Sanitizers that serialize kernels need this: a kernel that spins on a running predecessor would never end.
inline CudaOptions with_serial_mode(CudaOptions options, const char* serial) {
  if (serial && *serial && std::string_view(serial) != "0")
    options.graphs = options.overlap = options.dataflow_sync = false;
  return options;
}

// The Program must outlive the executor, but not its weights (and their file) unless experts stay there. Throws Error
// if there is no usable GPU or a CUDA call fails, OutOfMemory before copying.
std::unique_ptr<core::Executor> make_cuda_executor(const core::Program& program, const core::ExecutorConfig& config,
                                                   const CudaOptions& options = {});

// Whether GPU memory suffices; allocates and frees it.
bool fits(const core::Program& program, const core::ExecutorConfig& config, CudaOptions options = {});

// Whether the CPU computes some of its experts.
bool shares_experts_with_cpu(const core::Executor& executor);

// Rates that products are chosen by; empty for unusable GPUs.
std::string describe_rates(int device = 0);

// For plan_memory(); an H100's for unusable GPUs.
DeviceLimits limits_for_plans(int device = 0);

// Counted like plan_memory(), without expert copies; `reserve`: allocated since construction.
MemoryPlan allocated_memory(const core::Executor& executor);

// Result rows of an executor on their way to the host.
struct SentResult {
  std::shared_ptr<const float> rows; // null: they cannot be sent
  std::function<void()> arrive;      // waits until the host may read them
  bool finite = false;
};
// Hint that send_result_rows() is next.
void expect_sending(core::Executor& executor);
// Like core::Executor::copy_result_rows, without waiting.
SentResult send_result_rows(core::Executor& executor, int64_t count);
// Whether it takes rows in Batch::rows that the host must wait for.
bool reads_sent_rows(const core::Executor& executor);

// For `ridge bench --regret`.
struct ProductWays {
  struct Way {
    std::string name;
    double microseconds; // expected, for one layer
  };
  std::string products;
  std::string chosen;
  std::vector<Way> ways;
  int64_t layers = 0;
};
std::vector<ProductWays> product_ways(core::Executor& executor, const core::Batch& batch);
// Empty `way`: the cheapest.
void force_way(core::Executor& executor, const std::string& products, const std::string& way);
void set_way_factors(core::Executor& executor, const std::map<std::string, double>& factors);
// Factors found for another version are meaningless.
int version_of_expected_times();

} // namespace ridge::kernels::cuda
