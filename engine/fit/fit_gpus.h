// What of a model goes to each of several GPUs that share it (engine/ranks/).
#pragma once

#include "engine/fit/fit.h"

#include <cstdint>
#include <vector>

namespace ridge::engine {

// Stages of layers, one after the other, each shared out to as many GPUs.
class SharedOut {
 public:
  // `program` must stay. The parts are made when they are asked for first.
  SharedOut(const core::Program& program, std::vector<int> gpus, int stages);

  int64_t size() const { return std::ssize(gpus_); }
  // By GPU.
  std::vector<RankFit> ranks(const core::ExecutorConfig& config, const Room& room) const;
  // The bytes that a token behind `past` others reads one after the other: in each stage, those of the rank that reads
  // most.
  double bytes(const core::ExecutorConfig& config, int64_t past) const;

 private:
  struct Part {
    core::Program program;
    RankFit place; // without memory
    int stage;
  };
  const std::vector<Part>& parts() const;

  const core::Program* program_;
  std::vector<int> gpus_;
  int stages_;
  mutable std::vector<Part> parts_;
};

bool have_room(const std::vector<RankFit>& ranks);

// Ways to share a model out that a placement leaves open, as loading tries them: one where it says how many GPUs or
// which, else a growing number of those that are there. None where it wants a single device.
struct WaysToShare {
  std::vector<SharedOut> ways;
  bool only = false; // no single GPU is to have it
};
WaysToShare ways_to_share(const core::Program& program, const Room& room, const Placement& wanted);

} // namespace ridge::engine
