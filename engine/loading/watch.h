// Connections of a rank that is a process, and the watch over the others.
#pragma once

#include "core/parallel/communicator.h"
#include "core/parallel/processes/joining.h"
#include "core/parallel/processes/pulse.h"

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace ridge::engine {

class ProcessWatch {
  std::mutex mutex_; // for the next two
  std::function<void(const std::string&)> lost_;
  std::string why_; // a rank was lost

 public:
  ProcessWatch(core::ProcessLinks links, const core::ProcessRank& me);

  std::vector<std::shared_ptr<core::Connection>> commands; // by rank at rank 0, else to rank 0
  std::shared_ptr<core::Communicator> host;                // all ranks, over TCP
  std::unique_ptr<core::Communicator> own;                 // ranks that share layers with this one
  core::Pulse pulse;                                       // ends first; a lost rank ends all of the above

  // Also watches `own`.
  void take(std::unique_ptr<core::Communicator> linked);
  // See when_rank_lost().
  void call_when_lost(std::function<void(const std::string& why)> lost);
};

// The GPU of a rank. Throws Error if its host shows too few.
int device_of_rank(const core::ProcessRank& me);

} // namespace ridge::engine
