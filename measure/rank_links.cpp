#include "measure/rank_links.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/parallel/processes/secret.h"
#include "engine/loading/links.h"
#include "engine/loading/watch.h"
#include "kernels/cuda/exchange/exchange.h"
#include "kernels/cuda/runtime/device_info.h"

#include <algorithm>
#include <optional>
#include <sstream>

namespace ridge::measure {
namespace {

constexpr int64_t kSizes[] = {1 << 10, 1 << 13, 1 << 16, 1 << 20, 1 << 22}; // floats

int sums_of(int64_t floats) { return floats <= 1 << 16 ? 100 : 20; }

// A pair, each other rank alone.
engine::RankGroups pair_of(int first, int second, int ranks) {
  engine::RankGroups groups = {{first, second}};
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != first && rank != second) groups.push_back({rank});
  return groups;
}

class Measurement {
 public:
  Measurement(engine::ProcessWatch& watch, const core::ProcessRank& me, std::optional<int> device)
      : watch_(watch), me_(me), device_(device), facts_(engine::gather_facts(*watch.host, device)) {}

  RankLinks run() {
    RankLinks found;
    for (const engine::RankFacts& facts : facts_) found.ranks.push_back({facts.host, facts.gpu});
    for (int first = 0; first < me_.ranks; ++first)
      for (int second = first + 1; second < me_.ranks; ++second)
        for (const char* link : {"packets", "nccl"}) found.speeds.push_back(of_gpus(first, second, link));
    found.speeds.push_back(of_tcp());
    return found;
  }

 private:
  LinkSpeed of_gpus(int first, int second, const char* link) {
    LinkSpeed speed{first, second, link};
    const engine::RankGroups groups = pair_of(first, second, me_.ranks);
    std::vector<engine::RankFacts> facts = facts_;
    for (engine::RankFacts& one : facts) one.wanted = link;
    try {
      engine::choose_link({facts[first], facts[second]}); // all ranks find the same
    } catch (const Error& error) {
      speed.problem = error.what();
      return speed;
    }
    const bool own = me_.rank == first || me_.rank == second;
    engine::LinkNeeds needs{.device = device_, .most_floats = std::ranges::max(kSizes)};
    std::string problem, times;
    try {
      watch_.take(engine::link_ranks(watch_.host, facts, groups, needs));
      for (const int64_t floats : kSizes)
        if (own) times += fmt::format("{} ", kernels::cuda::time_sums(*watch_.own, *device_, floats, sums_of(floats)));
    } catch (const std::exception& error) {
      problem = error.what();
    }
    for (const std::string& one : core::gather_texts(*watch_.host, problem, 512))
      if (speed.problem.empty()) speed.problem = one;
    std::istringstream numbers(core::gather_texts(*watch_.host, times, 512)[first]);
    for (const int64_t floats : kSizes)
      if (double seconds = 0; numbers >> seconds) speed.sums.push_back({floats, seconds});
    return speed;
  }
  // Through rank 0, as between ranks on the CPU.
  LinkSpeed of_tcp() {
    LinkSpeed speed{0, -1, "tcp"};
    for (const int64_t floats : kSizes) {
      std::vector<float> values(static_cast<size_t>(floats));
      const int sums = floats <= 1 << 16 ? 20 : 3;
      watch_.host->all_reduce(values);
      const double begin = core::seconds_now();
      for (int i = 0; i < sums; ++i) watch_.host->all_reduce(values);
      watch_.host->check();
      speed.sums.push_back({floats, (core::seconds_now() - begin) / sums});
    }
    return speed;
  }

  engine::ProcessWatch& watch_;
  const core::ProcessRank& me_;
  const std::optional<int> device_;
  const std::vector<engine::RankFacts> facts_;
};

} // namespace

RankLinks measure_rank_links(const core::ProcessRank& me, const std::function<void(const std::string&)>& note) {
  std::optional<int> device;
  if (kernels::cuda::device_info().usable) device = engine::device_of_rank(me);
  core::ProcessLinks links =
      core::join_processes(me, "ridge " RIDGE_VERSION ", doctor --ranks", core::find_rank_secret(me.one_host));
  if (links.rejected_callers > 0) note(fmt::format("{} callers had the wrong rank secret", links.rejected_callers));
  engine::ProcessWatch watch(std::move(links), me);
  try {
    return Measurement(watch, me, device).run();
  } catch (const std::exception& error) {
    watch.pulse.fail(fmt::format("rank {}: {}", me.rank, error.what()));
    throw;
  }
}

} // namespace ridge::measure
