// How ranks in several processes exchange values.
#pragma once

#include "core/parallel/communicator.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ridge::engine {

enum class Link {
  packets, // ridge's own, into the memory of other GPUs of the host
  nccl,
  tcp // and host memory
};

// What a rank has.
struct RankFacts {
  std::string host;         // equal on one host
  std::string gpu;          // its bus; empty: on the CPU
  std::string wanted;       // RIDGE_RANK_LINK; empty: any
  std::string nccl_problem; // why it has no NCCL

  std::string text() const; // for others
  static RankFacts from(const std::string& text);
};

// Identifies this host: RIDGE_HOST_ID, or the running kernel's.
std::string host_id();

// RIDGE_RANK_LINK. Throws a usage Error for an unknown one.
std::string wanted_link();

struct LinkChoice {
  Link link;
  std::string reason; // why it is not a faster one, and what to do; may be empty
};

// `packets_problem`: if packets turned out not to work. Throws Error if the wanted link is impossible.
LinkChoice choose_link(const std::vector<RankFacts>& ranks, const std::string& packets_problem = {});

struct LinkNeeds {
  std::optional<int> device; // none: the CPU
  int64_t most_floats = 0;   // of an exchanged value
  std::function<void(const std::string&)> note;
};

// A communicator by the fastest way that all ranks have; all call it at once. `host`, over TCP, stays the
// caller's if this throws.
std::unique_ptr<core::Communicator> link_ranks(std::unique_ptr<core::Communicator>&& host, const LinkNeeds& needs);

} // namespace ridge::engine
