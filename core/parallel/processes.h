// Ranks that are processes: rank 0 runs the program and tells the others over TCP what to evaluate.
#pragma once

#include "core/executor.h"
#include "core/parallel/connection.h"
#include "core/parallel/parallel_executor.h"

#include <memory>

namespace ridge::core {

// A communicator over the connections of join_processes: the other ranks send rank 0 what they have, and it answers
// with the result.
std::unique_ptr<Communicator> make_process_communicator(std::vector<std::unique_ptr<Connection>> values, int rank,
                                                        int ranks);

// An executor in another process, at the other end of `commands`, which runs serve_rank. Chooses no tokens itself.
// Throws Error where that process fails or is gone.
std::unique_ptr<Executor> make_remote_executor(std::unique_ptr<Connection> commands, const ExecutorConfig& config);

// Runs what the other end asks for, until it is gone. What the executor throws is told to the other end.
void serve_rank(Executor& executor, Connection& commands);

} // namespace ridge::core
