// Ranks in several processes: rank 0 sends commands to the others over TCP.
#pragma once

#include "core/executor.h"
#include "core/parallel/connection.h"
#include "core/parallel/parallel_executor.h"

#include <memory>

namespace ridge::core {

// Ranks send values to rank 0, which returns the result.
std::unique_ptr<Communicator> make_process_communicator(std::vector<std::unique_ptr<Connection>> values, int rank,
                                                        int ranks);

// The executor of another process, which runs serve_rank. It chooses no tokens. Throws Error if that process fails or
// is gone.
std::unique_ptr<Executor> make_remote_executor(std::unique_ptr<Connection> commands, const ExecutorConfig& config);

// Executes commands until the peer is gone; sends exceptions back.
void serve_rank(Executor& executor, Connection& commands);

} // namespace ridge::core
