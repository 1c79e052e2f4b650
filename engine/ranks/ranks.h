// A model on several devices at once: every layer is shared out to ranks (core/parallel/shard.h).
#pragma once

#include "core/executor.h"
#include "core/parallel/joining.h"
#include "core/parallel/shard.h"
#include "kernels/cuda/executor/executor.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

// "0,1": numbers of GPUs; empty: none. Throws a usage Error for anything else, and for a number that comes twice.
std::vector<int> parse_gpus(const std::string& list);

// What of a Program is a rank's. With `sizes_only`, for plans: see core::shard_program.
core::Shard shard(const core::Program& program, int rank, int ranks, bool sizes_only = false);

// The GPUs that are named, or of `here` that there are the first ones; of either as many as `ranks`, or all where that
// is 0. Throws a usage Error where there are not so many.
std::vector<int> gpus_to_use(const std::vector<int>& named, int ranks, int here);

// Which GPUs a model is shared out to, a rank each: those that are named, or the first `ranks` (0: as few as hold it
// together, all where they do not). One: it is not shared out. Throws a usage Error where there are not so many.
std::vector<int> gpus_for_ranks(const core::Program& program, const core::ExecutorConfig& config,
                                const std::vector<int>& named, int ranks, const kernels::cuda::CudaOptions& options);

// An executor on all of them, or on the one that it is; progress is the first one's. Throws what make_cuda_executor
// throws.
std::unique_ptr<core::Executor> on_gpus(const core::Program& program, const core::ExecutorConfig& config,
                                        const std::vector<int>& gpus, const kernels::cuda::CudaOptions& options,
                                        const std::function<void(double done, double total)>& progress);

// On groups of the CPU's threads; one rank: on all of them.
std::unique_ptr<core::Executor> on_cpu_ranks(const core::Program& program, const core::ExecutorConfig& config,
                                             int ranks);

// One of several processes (core::ProcessRank). Rank 0 gets an executor of the whole; the others run what it asks for
// until it is gone, and then throw RankEnded, which is no error. `on_gpu`: on the GPU of the process's number.
// The first model that rank 0 starts is shared out. Those that it starts while that one is there run in its process
// alone, such as a draft model. Throws Error for one that it starts after that: the others have ended. One thread at a
// time may call it. `note` is told how many strangers called.
struct RankEnded {};
std::unique_ptr<core::Executor> as_process_rank(const core::Program& program, const core::ExecutorConfig& config,
                                                const core::ProcessRank& me, bool on_gpu,
                                                const kernels::cuda::CudaOptions& options,
                                                const std::function<void(const std::string&)>& note);

// Throws a usage Error where this process is one of several, for a command that they cannot share. Before anything
// is loaded: then every rank says so at once, and none waits for another. `why`: "each has only a part of …".
void need_one_process(std::string_view command, std::string_view why);

} // namespace ridge::engine
