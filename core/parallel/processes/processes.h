// Ranks in several processes: rank 0 sends commands to the others over TCP.
#pragma once

#include "core/executor.h"
#include "core/parallel/parallel_executor.h"
#include "core/parallel/processes/connection.h"

#include <functional>
#include <memory>
#include <string>

namespace ridge::core {

// Ranks send values to rank 0, which returns the result. `told` is called with the first failure.
std::unique_ptr<Communicator> make_process_communicator(std::vector<std::unique_ptr<Connection>> values, int rank,
                                                        int ranks,
                                                        std::function<void(const std::string& why)> told = {});

// The executor of another process, which runs serve_rank. Throws Error if that process fails or is gone.
std::unique_ptr<Executor> make_remote_executor(std::shared_ptr<Connection> commands, const ExecutorConfig& config);

// Executes commands until the peer closes the connection; sends exceptions back.
void serve_rank(Executor& executor, Connection& commands);

} // namespace ridge::core
