// Runs a Program on an NVIDIA GPU. Nothing here needs CUDA headers, a driver or a GPU to be included or linked: whether
// there is one is a question that available_device() answers.
#pragma once

#include "core/executor.h"
#include "kernels/cuda/plan/memory_plan.h"
#include "kernels/cuda/runtime/device_info.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ridge::kernels::cuda {

struct CudaOptions {
  int device = 0;
  std::function<void(double done_bytes, double total_bytes)> upload_progress; // may be empty
  bool upload = true; // else only the memory is taken, see fits()
  // Another executor on this device. What its Program has of the same data is shared with it, also when it is gone.
  const core::Executor* weights_of = nullptr;
  // Routed experts stay in page-locked host memory; the GPU keeps copies of those used most in whatever room is left
  // (experts/expert_cache.h). Without routed experts this changes nothing.
  bool experts_on_host = false;
  // Bytes of page-locked memory that these experts may take; -1: as many as they want. What has no room there, or where
  // the system has less, stays in the file and is read when it is wanted (experts/filed_experts.h).
  double host_limit = -1;
  double memory_limit = 0;  // bytes of the GPU's memory that this executor may take; 0: what is free
  int64_t most_copies = -1; // for tests: experts of a layer that may have one; -1: as many as have room
  // For tests, which compare with and without: fusions, graphs, overlapping launches, dataflow sync.
  bool fuse = true, graphs = true, overlap = true, dataflow_sync = true;
  // For tests: products are chosen as for matrices of at least so many rows and columns, so that small ones go the ways
  // of large ones.
  int64_t least_side = 0;
  // By ways' names: what these take here, in units of what they are expected to take (plan/candidates.h).
  std::map<std::string, double> way_factors;
  // For tests: the way that all products are multiplied where it fits (plan/candidates.h); empty: the cheapest.
  std::string way;
  // For tests: work as on a chip of this compute capability (75, 80, 86, 89), as far as the host decides how to; 0: as
  // the chip allows. Code that was compiled for older chips is another matter (docs/cuda.md).
  int as_compute = 0;
};

// The options with graphs, overlap and dataflow sync off where `serial` (the value of RIDGE_CUDA_SERIAL; may be null)
// is set and not "0": every kernel starts when the one before it has ended. Sanitizers that run kernels one after
// another need that, because a kernel that spin-waits on values of a running predecessor never ends there.
CudaOptions with_serial_mode(CudaOptions options, const char* serial);

// Copies the weights to the GPU; the Program's own copy (and the file it points into) is not needed afterwards, unless
// experts stay in the file. The Program itself is. Throws Error where there is no usable GPU or a CUDA call fails,
// OutOfMemory before anything is copied.
std::unique_ptr<core::Executor> make_cuda_executor(const core::Program& program, const core::ExecutorConfig& config,
                                                   const CudaOptions& options = {});

// Whether make_cuda_executor would find the GPU memory it needs: tries, and gives it back.
bool fits(const core::Program& program, const core::ExecutorConfig& config, CudaOptions options = {});

// The rates that products are chosen by on that GPU, as text; empty where it cannot be used.
std::string describe_rates(int device = 0);

// That GPU's limits, for plan_memory(); an H100's where it cannot be used.
DeviceLimits limits_for_plans(int device = 0);

// What an executor of make_cuda_executor has allocated, without copies of experts: as plan_memory() counts it, but in
// `reserve` what it took since it was made.
MemoryPlan allocated_memory(const core::Executor& executor);

// How an executor of make_cuda_executor multiplies in this batch: what `ridge bench --regret` measures.
struct ProductWays {
  struct Way {
    std::string name;    // plan/candidates.h
    double microseconds; // expected, for the products of one layer
  };
  std::string products; // "attn_q attn_k attn_v"
  std::string taken;
  std::vector<Way> ways; // all that fit
  int64_t layers = 0;    // that have such products
};
std::vector<ProductWays> product_ways(core::Executor& executor, const core::Batch& batch); // each kind once
// From now on the products of this name are multiplied so where that fits; an empty `way`: by the cheapest.
void force_way(core::Executor& executor, const std::string& products, const std::string& way);
// From now on ways are expected to take these times what plan/candidates.h says.
void set_way_factors(core::Executor& executor, const std::map<std::string, double>& factors);
// The version of what plan/candidates.h expects: factors that were found for another one mean nothing.
int version_of_expected_times();

} // namespace ridge::kernels::cuda
