#include "engine/ranks/links.h"

#include "core/error.h"
#include "kernels/cuda/exchange/exchange.h"
#include "kernels/cuda/exchange/nccl.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace ridge::engine {
namespace {

constexpr size_t kMostFacts = 1024, kMostProblem = 512; // bytes

std::string of_environment(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

// The first problem among all ranks' own, with its rank; empty: none.
std::string first_problem(core::Communicator& host, const std::string& own) {
  const std::vector<std::string> all = core::gather_texts(host, own, kMostProblem);
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty()) return fmt::format("rank {}: {}", rank, all[rank]);
  return "";
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

// Null, and the problem, if not all ranks reach all others' memory.
std::unique_ptr<kernels::cuda::PacketLink> link_by_packets(core::Communicator& host, const LinkNeeds& needs,
                                                           std::string& problem) {
  std::unique_ptr<kernels::cuda::PacketLink> link;
  std::string handle;
  std::string own = problem_of([&] {
    link = kernels::cuda::make_packet_link(*needs.device, host.rank(), host.ranks(), needs.most_floats);
    for (const std::byte byte : link->handle()) handle += static_cast<char>(byte);
  });
  std::vector<std::vector<std::byte>> handles;
  for (const std::string& text : core::gather_texts(host, handle, kMostProblem)) {
    const auto bytes = std::as_bytes(std::span(text));
    handles.emplace_back(bytes.begin(), bytes.end());
  }
  const bool all_offer = std::ranges::none_of(handles, [](const auto& bytes) { return bytes.empty(); });
  if (own.empty() && all_offer) own = problem_of([&] { link->open(handles); });
  problem = first_problem(host, own);
  if (!problem.empty()) link.reset();
  return link;
}

kernels::cuda::NcclId shared_nccl_id(core::Communicator& host) {
  kernels::cuda::NcclId id = {};
  std::string problem, text;
  if (host.rank() == 0) {
    problem = problem_of([&] {
      const kernels::cuda::NcclLibrary& nccl = kernels::cuda::nccl();
      nccl.expect(nccl.get_unique_id(&id), "ncclGetUniqueId");
    });
    text.assign(id.bytes.data(), id.bytes.size());
  }
  text = core::gather_texts(host, text, id.bytes.size())[0];
  if (const std::string why = first_problem(host, problem); !why.empty()) throw Error(why);
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

std::unique_ptr<core::Communicator> link_ranks(std::unique_ptr<core::Communicator>&& host, const LinkNeeds& needs) {
  RankFacts own{host_id(), needs.device ? kernels::cuda::bus_of(*needs.device) : "", wanted_link(), ""};
  if (needs.device && own.wanted != "tcp") own.nccl_problem = kernels::cuda::nccl().problem;
  std::vector<RankFacts> ranks;
  for (const std::string& text : core::gather_texts(*host, own.text(), kMostFacts))
    ranks.push_back(RankFacts::from(text));
  LinkChoice choice = choose_link(ranks);
  if (choice.link == Link::packets) {
    std::string problem;
    if (const auto link = link_by_packets(*host, needs, problem)) return link->connect(std::move(host));
    choice = choose_link(ranks, problem);
  }
  if (choice.link == Link::nccl) {
    const kernels::cuda::NcclId id = shared_nccl_id(*host);
    return kernels::cuda::make_nccl_communicator(std::move(host), *needs.device, id);
  }
  if (!choice.reason.empty() && host->rank() == 0 && needs.note)
    needs.note(
        fmt::format("values between processes go through the host's memory and TCP, which is slow: {}", choice.reason));
  return std::move(host);
}

} // namespace ridge::engine
