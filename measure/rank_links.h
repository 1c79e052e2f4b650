// Speed of the links between ranks in processes, for `ridge doctor --ranks`.
#pragma once

#include "core/parallel/processes/joining.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ridge::measure {

struct LinkSpeed {
  int first, second; // ranks; second -1: all ranks together
  std::string link;  // "packets", "nccl" or "tcp"
  std::string problem;
  struct Sum {
    int64_t floats;
    double seconds;
    // Bytes that each of the two ranks sends.
    double bytes_per_second() const { return static_cast<double>(floats) * 4 / seconds; }
  };
  std::vector<Sum> sums;
};

struct RankPlace {
  std::string host, gpu; // gpu: its bus; empty: none
};

struct RankLinks {
  std::vector<RankPlace> ranks;
  std::vector<LinkSpeed> speeds;
};

// All ranks call it at once.
RankLinks measure_rank_links(const core::ProcessRank& me, const std::function<void(const std::string&)>& note);

} // namespace ridge::measure
