// Plans models on several GPUs (ranks.h).
#pragma once

#include "engine/loading/fit.h"

#include <cstdint>
#include <vector>

namespace ridge::engine {

class SharingPlan {
 public:
  // `program` must outlive it.
  SharingPlan(const core::Program& program, std::vector<int> gpus, int stages);

  int64_t size() const { return std::ssize(gpus_); }
  std::vector<RankFit> ranks(const core::ExecutorConfig& config, const Room& room) const;
  // For a token after `past` others: each stage's largest rank, summed.
  double bytes(const core::ExecutorConfig& config, int64_t past) const;

 private:
  struct Part {
    core::Program program;
    RankFit place;
    int stage;
  };
  const std::vector<Part>& parts() const;

  const core::Program* program_;
  std::vector<int> gpus_;
  int stages_;
  mutable std::vector<Part> parts_;
};

bool have_room(const std::vector<RankFit>& ranks);

// As for one GPU (fit.h), if every GPU has room for it.
core::ExecutorConfig config_with_long_batch(const SharingPlan& plan, const core::ExecutorConfig& config,
                                            const Room& room, const Placement& wanted);

// Candidates in the order of loading: one if the placement names GPUs or ranks, none for a single device, else growing
// numbers of GPUs.
struct SharingCandidates {
  std::vector<SharingPlan> ways;
  bool only = false; // a single GPU is not allowed
};
SharingCandidates sharing_candidates(const core::Program& program, const Room& room, const Placement& wanted);

} // namespace ridge::engine
