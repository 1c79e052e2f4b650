#include "engine/loading/links.h"

#include "core/error.h"
#include "kernels/cuda/exchange/exchange.h"
#include "kernels/cuda/exchange/nccl.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <sstream>
#include <stdexcept>

namespace ridge::engine {
namespace {

constexpr size_t kMostFacts = 1024, kMostProblem = 512; // bytes

std::string of_environment(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

template <typename Work>
std::string problem_of(Work&& work) {
  try {
    work();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

// A group's first problem, with its rank; empty: none.
std::string first_problem(const std::vector<std::string>& problems, const std::vector<int>& group) {
  for (const int rank : group)
    if (!problems[rank].empty()) return fmt::format("rank {}: {}", rank, problems[rank]);
  return "";
}

// A group's ranks among all.
class GroupCommunicator final : public core::Communicator {
 public:
  GroupCommunicator(std::shared_ptr<core::Communicator> all, int rank, int ranks)
      : all_(std::move(all)), rank_(rank), ranks_(ranks) {}

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void all_reduce(std::span<float> values) override {
    need_all();
    all_->all_reduce(values);
  }
  void all_gather(std::span<const float> part, int64_t rows, int64_t first, std::span<float> whole) override {
    need_all();
    all_->all_gather(part, rows, first, whole);
  }
  void fail(const std::string& why) override { all_->fail(why); }
  void check() const override { all_->check(); }

 private:
  void need_all() const {
    if (ranks_ != all_->ranks()) throw std::logic_error("TCP is for all ranks at once");
  }

  const std::shared_ptr<core::Communicator> all_;
  const int rank_, ranks_;
};

struct Links {
  core::Communicator& host; // all ranks
  const std::vector<RankFacts>& facts;
  const RankGroups& groups;
  const LinkNeeds& needs;
  const std::vector<int>* own_group = nullptr;
  int own_rank = 0;                // in it
  std::vector<LinkChoice> choices; // by group
  const LinkChoice& own_choice() const { return choices[own_group - groups.data()]; }
  bool any(Link link) const { return std::ranges::count(choices, link, &LinkChoice::link) > 0; }
};

std::vector<RankFacts> facts_of(const Links& links, const std::vector<int>& group) {
  std::vector<RankFacts> facts;
  for (const int rank : group) facts.push_back(links.facts[rank]);
  return facts;
}

// Null if this rank's group does not exchange packets, or cannot: then the choice changes.
std::unique_ptr<kernels::cuda::PacketLink> link_by_packets(Links& links) {
  std::unique_ptr<kernels::cuda::PacketLink> link;
  const bool wanted = links.own_choice().link == Link::packets;
  std::string handle, own;
  if (wanted)
    own = problem_of([&] {
      link = kernels::cuda::make_packet_link(*links.needs.device, links.own_rank,
                                             static_cast<int>(links.own_group->size()), links.needs.most_floats);
      for (const std::byte byte : link->handle()) handle += static_cast<char>(byte);
    });
  const std::vector<std::string> all = core::gather_texts(links.host, handle, kMostProblem);
  std::vector<std::vector<std::byte>> handles;
  for (const int rank : *links.own_group) {
    const auto bytes = std::as_bytes(std::span(all[rank]));
    handles.emplace_back(bytes.begin(), bytes.end());
  }
  const bool all_offer = std::ranges::none_of(handles, [](const auto& bytes) { return bytes.empty(); });
  if (wanted && own.empty() && all_offer) own = problem_of([&] { link->open(handles); });
  const std::vector<std::string> problems = core::gather_texts(links.host, own, kMostProblem);
  for (size_t i = 0; i < links.groups.size(); ++i)
    if (const std::string problem = first_problem(problems, links.groups[i]); !problem.empty())
      links.choices[i] = choose_link(facts_of(links, links.groups[i]), problem);
  if (links.own_choice().link != Link::packets) link.reset();
  return link;
}

// The id that the first rank of this rank's group makes.
kernels::cuda::NcclId gather_nccl_id(Links& links) {
  kernels::cuda::NcclId id = {};
  std::string own, text;
  if (links.own_choice().link == Link::nccl && links.own_rank == 0) {
    own = problem_of([&] {
      const kernels::cuda::NcclLibrary& nccl = kernels::cuda::nccl();
      nccl.expect(nccl.get_unique_id(&id), "ncclGetUniqueId");
    });
    text.assign(id.bytes.data(), id.bytes.size());
  }
  text = core::gather_texts(links.host, text, id.bytes.size())[links.own_group->front()];
  const std::vector<std::string> problems = core::gather_texts(links.host, own, kMostProblem);
  for (const std::vector<int>& group : links.groups)
    if (const std::string why = first_problem(problems, group); !why.empty()) throw Error(why);
  std::ranges::copy(text, id.bytes.begin());
  return id;
}

} // namespace

std::string RankFacts::text() const { return fmt::format("{}\n{}\n{}\n{}", host, gpu, wanted, nccl_problem); }

RankFacts RankFacts::from(const std::string& text) {
  RankFacts facts;
  std::istringstream lines(text);
  for (std::string* field : {&facts.host, &facts.gpu, &facts.wanted, &facts.nccl_problem}) std::getline(lines, *field);
  return facts;
}

std::string host_id() {
  if (const std::string given = of_environment("RIDGE_HOST_ID"); !given.empty()) return given;
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  if (!id.empty()) return id;
  char name[256] = "";
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

std::string wanted_link() {
  const std::string wanted = of_environment("RIDGE_RANK_LINK");
  if (!wanted.empty() && wanted != "packets" && wanted != "nccl" && wanted != "tcp")
    throw Error(fmt::format("RIDGE_RANK_LINK={}: expected packets, nccl or tcp", wanted), Error::kUsage);
  return wanted;
}

LinkChoice choose_link(const std::vector<RankFacts>& ranks, const std::string& packets_problem) {
  const RankFacts& first = ranks[0];
  for (size_t rank = 1; rank < ranks.size(); ++rank)
    if (ranks[rank].wanted != first.wanted)
      throw_error("RIDGE_RANK_LINK is \"{}\" for rank {} and \"{}\" for rank 0: every rank needs the same",
                  ranks[rank].wanted, rank, first.wanted);
  const std::string& wanted = first.wanted;
  std::string on_cpu, shared, no_nccl;
  bool on_gpu = false, one_host = true;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankFacts& facts = ranks[rank];
    on_gpu |= !facts.gpu.empty();
    if (facts.gpu.empty() && on_cpu.empty()) on_cpu = fmt::format("rank {} runs on the CPU", rank);
    if (facts.host != first.host) one_host = false;
    if (!facts.nccl_problem.empty() && no_nccl.empty()) no_nccl = fmt::format("rank {}: {}", rank, facts.nccl_problem);
    for (size_t other = 0; other < rank; ++other)
      if (!facts.gpu.empty() && facts.host == ranks[other].host && facts.gpu == ranks[other].gpu && shared.empty())
        shared = fmt::format("ranks {} and {} share the GPU {}", other, rank, facts.gpu);
  }
  const std::string no_device = !on_cpu.empty() ? on_cpu : shared;
  std::string no_packets = no_device;
  if (no_packets.empty() && !one_host) no_packets = "the ranks are on several hosts";
  if (no_packets.empty() && ranks.size() > kernels::cuda::kMaxRanks)
    no_packets = fmt::format("at most {} ranks exchange packets", kernels::cuda::kMaxRanks);
  if (no_packets.empty()) no_packets = packets_problem;
  if (!no_device.empty()) no_nccl = no_device;

  if (wanted == "tcp" || (wanted.empty() && !on_gpu)) return {Link::tcp, ""};
  if (wanted != "nccl" && no_packets.empty()) return {Link::packets, ""};
  if (wanted == "packets") throw_error("RIDGE_RANK_LINK=packets: {}", no_packets);
  if (no_nccl.empty()) return {Link::nccl, wanted.empty() ? no_packets : ""};
  if (wanted == "nccl") throw_error("RIDGE_RANK_LINK=nccl: {}", no_nccl);
  return {Link::tcp, no_nccl == no_packets ? no_nccl : fmt::format("{}; {}", no_packets, no_nccl)};
}

RankGroups one_group(int ranks) {
  std::vector<int> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return {all};
}

RankGroups groups_of(const std::vector<RankFacts>& ranks) {
  RankGroups groups;
  for (int rank = 0; rank < std::ssize(ranks); ++rank) {
    const auto same = [&](const std::vector<int>& group) { return ranks[group[0]].host == ranks[rank].host; };
    const auto known = std::ranges::find_if(groups, same);
    known == groups.end() ? groups.push_back({rank}) : known->push_back(rank);
  }
  for (const std::vector<int>& group : groups) {
    std::vector<RankFacts> facts;
    for (const int rank : group) facts.push_back(ranks[rank]);
    if (group.size() == 1 || groups.size() == 1 || choose_link(facts).link != Link::tcp) continue;
    return one_group(static_cast<int>(ranks.size()));
  }
  return groups;
}

std::vector<RankFacts> gather_facts(core::Communicator& host, std::optional<int> device) {
  RankFacts own{host_id(), device ? kernels::cuda::bus_of(*device) : "", wanted_link(), ""};
  if (device && own.wanted != "tcp") own.nccl_problem = kernels::cuda::nccl().problem;
  std::vector<RankFacts> ranks;
  for (const std::string& text : core::gather_texts(host, own.text(), kMostFacts))
    ranks.push_back(RankFacts::from(text));
  return ranks;
}

std::unique_ptr<core::Communicator> link_ranks(std::shared_ptr<core::Communicator> host,
                                               const std::vector<RankFacts>& facts, const RankGroups& groups,
                                               const LinkNeeds& needs) {
  Links links{*host, facts, groups, needs};
  for (const std::vector<int>& group : groups) {
    if (const auto own = std::ranges::find(group, host->rank()); own != group.end()) {
      links.own_group = &group;
      links.own_rank = static_cast<int>(own - group.begin());
    }
    links.choices.push_back(group.size() == 1 ? LinkChoice{Link::tcp, ""} : choose_link(facts_of(links, group)));
  }
  const int ranks = static_cast<int>(links.own_group->size());
  const auto of_group = [&] { return std::make_unique<GroupCommunicator>(host, links.own_rank, ranks); };
  std::unique_ptr<kernels::cuda::PacketLink> packets;
  if (links.any(Link::packets)) packets = link_by_packets(links);
  kernels::cuda::NcclId id = {};
  if (links.any(Link::nccl)) id = gather_nccl_id(links);
  for (size_t i = 0; i < groups.size(); ++i)
    if (links.choices[i].link == Link::tcp && groups[i].size() > 1 && groups.size() > 1)
      throw_error("rank {} and the others of its host cannot exchange values: {}", groups[i][0],
                  links.choices[i].reason);
  if (packets) return packets->connect(of_group());
  if (links.own_choice().link == Link::nccl)
    return kernels::cuda::make_nccl_communicator(of_group(), *needs.device, id);
  if (const std::string& reason = links.own_choice().reason; !reason.empty() && links.host.rank() == 0 && needs.note)
    needs.note(fmt::format("values between processes go through the host's memory and TCP, which is slow: {}", reason));
  return of_group();
}

} // namespace ridge::engine
