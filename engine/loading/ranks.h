// A model on several devices: every layer is distributed over ranks (core/parallel/shard.h).
#pragma once

#include "core/executor.h"
#include "core/parallel/processes/joining.h"
#include "core/parallel/shard.h"
#include "kernels/cuda/executor/executor.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

// Parses "0,1"; may be empty. Throws a usage Error for anything else and for duplicates.
std::vector<int> parse_gpus(const std::string& list);

// sizes_only: see core::shard_program.
core::Shard shard(const core::Program& program, int rank, int ranks, bool sizes_only = false);

// The first `ranks` (0: all) of the named GPUs or, without names, of `here` GPUs. Throws a usage Error for too few.
std::vector<int> gpus_to_use(const std::vector<int>& named, int ranks, int here);

// GPUs for one rank each: the named ones, or the first `ranks` (0: as few as hold the model, else all). A single GPU:
// not shared. Throws a usage Error for too few.
std::vector<int> gpus_for_ranks(const core::Program& program, const core::ExecutorConfig& config,
                                const std::vector<int>& named, int ranks, const kernels::cuda::CudaOptions& options);

// Applies to all ranks, even those whose part does not amplify errors.
core::ExecutorConfig config_of_ranks(const core::Program& program, core::ExecutorConfig config);

// `progress` is called for the first rank. Throws as make_cuda_executor does.
std::unique_ptr<core::Executor> on_gpus(const core::Program& program, const core::ExecutorConfig& config,
                                        const std::vector<int>& gpus, const kernels::cuda::CudaOptions& options,
                                        const std::function<void(double done, double total)>& progress);

std::unique_ptr<core::Executor> on_cpu_ranks(const core::Program& program, const core::ExecutorConfig& config,
                                             int ranks);

// For one of several processes (core::ProcessRank). Rank 0 gets an executor of the whole model; other ranks serve it,
// and throw RankEnded (no error) when it is gone. With `on_gpu` each uses the GPU with its number.
// Only the first model is shared. While it lives, rank 0 runs draft models alone; later models throw Error, since the
// other ranks have ended. Not thread-safe. `longer`: with long batches, taken if every GPU has room for it. `note`
// reports unexpected connections.
struct RankEnded {};
std::unique_ptr<core::Executor> as_process_rank(const core::Program& program, const core::ExecutorConfig& config,
                                                const core::ExecutorConfig& longer, const core::ProcessRank& me,
                                                bool on_gpu, const kernels::cuda::CudaOptions& options,
                                                const std::function<void(const std::string&)>& note);

// Calls `lost` once, in another thread, when a process of the shared model is lost, or at once if one is; null: no
// longer. Does nothing in a single process.
void when_rank_lost(std::function<void(const std::string& why)> lost);

// Throws a usage Error in a multi-process run. Call before loading, so that all ranks fail and none waits. `why`: "each
// has only a part of …".
void need_one_process(std::string_view command, std::string_view why);

} // namespace ridge::engine
