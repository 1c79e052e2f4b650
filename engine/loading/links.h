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

// Ranks that share every layer: all of one host. Each group is a stage of a pipeline.
using RankGroups = std::vector<std::vector<int>>;

// By host, in the order of their first ranks; one group if a group could only exchange through TCP, of which rank 0 is
// the hub.
RankGroups groups_of(const std::vector<RankFacts>& ranks);

RankGroups one_group(int ranks);

// All ranks' facts; all call it at once.
std::vector<RankFacts> gather_facts(core::Communicator& host, std::optional<int> device);

struct LinkNeeds {
  std::optional<int> device; // none: the CPU
  int64_t most_floats = 0;   // of an exchanged value
  std::function<void(const std::string&)> note;
};

// A communicator for the group of this rank, by the fastest way that the group has; all ranks of all groups call it at
// once. `host`: over TCP, for all ranks.
std::unique_ptr<core::Communicator> link_ranks(std::shared_ptr<core::Communicator> host,
                                               const std::vector<RankFacts>& facts, const RankGroups& groups,
                                               const LinkNeeds& needs);

} // namespace ridge::engine
