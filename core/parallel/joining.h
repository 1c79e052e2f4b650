// How the processes of one model find each other: ranks call rank 0, and both sides prove that they know a secret
// (core/parallel/secret.h) before either believes what the other says.
#pragma once

#include "core/parallel/connection.h"

#include <memory>
#include <string>
#include <vector>

namespace ridge::core {

// What a process of several is told by its environment.
struct ProcessRank {
  int rank = 0, ranks = 1, local_rank = 0; // local: among those of this machine
  std::string host = "127.0.0.1";          // of rank 0
  int port = 29501;                        // where it listens
  double patience_seconds = 60;            // with ranks that have not come
  double exchange_seconds = 5;             // for a caller to prove itself
  bool one_host = true;                    // all ranks are on this machine, as far as is known

  // RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT (one below `port`) as torchrun sets
  // them, or Open MPI's names for the first four; RIDGE_RANK_TIMEOUT in seconds. Throws a usage Error for what is no
  // rank or no port.
  static ProcessRank from_environment();
};

// Connections of rank 0 to each of the others (by rank; of itself null), or of another rank to rank 0 (alone). Two of
// each: for commands and for values.
struct ProcessLinks {
  std::vector<std::unique_ptr<Connection>> commands, values;
  int strangers = 0; // callers that did not prove that they know the secret
};

// `what` says what all ranks must have alike. Throws Error that names the ranks that are missing, or what differs.
//
// A caller has exchange_seconds for the whole exchange; others are served meanwhile. Where more than 256 callers have
// proved nothing yet, the oldest is disconnected. A rank that is disconnected so calls again.
ProcessLinks join_processes(const ProcessRank& me, const std::string& what, const std::string& secret);

} // namespace ridge::core
