// Rendezvous: ranks connect to rank 0, and both sides prove knowledge of a secret (secret.h) before trusting data.
#pragma once

#include "core/parallel/processes/connection.h"

#include <memory>
#include <string>
#include <vector>

namespace ridge::core {

// A process's rank from its environment.
struct ProcessRank {
  int rank = 0, ranks = 1, local_rank = 0; // local_rank: on this machine
  std::string host = "127.0.0.1";          // of rank 0
  int port = 29501;                        // where rank 0 listens
  double patience_seconds = 60;            // limit for missing ranks
  double exchange_seconds = 5;             // limit for a caller's proof
  bool one_host = true;                    // as far as known

  // torchrun's RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT (one below `port`), or what
  // Open MPI and Slurm's srun say instead; RIDGE_RANK_TIMEOUT in seconds. Throws a usage Error if invalid.
  static ProcessRank from_environment();
};

// "node3" of "node[3-7,9],other". Throws a usage Error for an unfinished list.
std::string first_slurm_host(const std::string& list);

// Rank 0 has one per rank (null for itself), other ranks one to rank 0.
struct ProcessLinks {
  std::vector<std::unique_ptr<Connection>> commands, values, pulses;
  int rejected_callers = 0; // callers without a valid proof
};

// Throws Error if ranks are missing or differ in `what`. Rank 0 serves callers concurrently, each for exchange_seconds
// at most. If more than 256 have no proof yet, it disconnects the oldest; real ranks retry.
ProcessLinks join_processes(const ProcessRank& me, const std::string& what, const std::string& secret);

} // namespace ridge::core
