// Executors of shards (shard.h) that act as one.
#pragma once

#include "core/executor.h"
#include "core/parallel/communicator.h"
#include "core/parallel/shard.h"

#include <functional>
#include <memory>
#include <vector>

namespace ridge::core {

// Called in the rank's thread.
using MakeRank = std::function<std::unique_ptr<Executor>(const Program&, const ExecutorConfig&, int rank)>;

// Each rank has a thread; results are those of rank 0. `communicators` are null for ranks in other processes
// (processes.h), whose shards may be empty. If a rank fails, the others are told and the call rethrows its exception.
// `companion` outlives the executors, but not the communicators.
std::unique_ptr<Executor> make_parallel_executor(std::vector<Shard> shards, const ExecutorConfig& config,
                                                 std::vector<std::unique_ptr<Communicator>> communicators,
                                                 const MakeRank& make_rank, std::shared_ptr<void> companion = {});

} // namespace ridge::core
