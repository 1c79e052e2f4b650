// The shards of a Program (shard.h) on an executor each, as one executor of the whole.
#pragma once

#include "core/executor.h"
#include "core/parallel/communicator.h"
#include "core/parallel/shard.h"

#include <functional>
#include <memory>
#include <vector>

namespace ridge::core {

// Makes the executor of rank `rank` in the thread that it runs in.
using MakeRank = std::function<std::unique_ptr<Executor>(const Program&, const ExecutorConfig&, int rank)>;

// A thread per rank calls that rank's executor; what the caller is given is the first rank's. `communicators`: one per
// shard; null for ranks in other processes (processes.h), whose shards may be empty. Where a rank fails, the others are
// told, and the call throws what it threw. Throws what make_rank throws, of the first rank that does.
std::unique_ptr<Executor> make_parallel_executor(std::vector<Shard> shards, const ExecutorConfig& config,
                                                 std::vector<std::unique_ptr<Communicator>> communicators,
                                                 const MakeRank& make_rank);

} // namespace ridge::core
