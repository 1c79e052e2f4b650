// Placement of experts, with simulated moves.
#include "kernels/cuda/plan/expert_tiers.h"

#include "kernels/cuda/plan/expert_groups.h"
#include "support/numerics.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

using namespace ridge;
using kernels::cuda::ExpertMove;
using kernels::cuda::ExpertPlace;
using kernels::cuda::ExpertTiers;
using kernels::cuda::Tier;

namespace {

struct Layer {
  int experts;
  ExpertTiers tiers;
  std::vector<int> slots, host, spill;
  int64_t read = 0;

  Layer(int experts, int slots, int host, int spill)
      : experts(experts), tiers(experts, slots, host, spill), slots(slots, -1), host(host, -1), spill(spill, -1) {}

  int& at(ExpertPlace place) {
    return (place.tier == Tier::gpu ? slots : place.tier == Tier::host ? host : spill)[place.number];
  }
  std::set<int> in_memory() const {
    std::set<int> all(slots.begin(), slots.end());
    all.insert(host.begin(), host.end());
    all.erase(-1);
    return all;
  }

  void use(const std::vector<int32_t>& wanted) {
    const std::set<int> before = in_memory(), set(wanted.begin(), wanted.end());
    int64_t found = 0, read_now = 0;
    for (const int e : set) found += std::ranges::count(slots, e);
    std::ranges::fill(spill, -1);
    for (const ExpertMove& move : tiers.place_experts(wanted)) {
      CHECK(set.contains(move.expert));
      const int displaced = at(move.to);
      if (move.from_host >= 0) CHECK(host[move.from_host] == move.expert);
      if (move.to.tier == Tier::host) CHECK(move.from_host < 0);
      read_now += move.from_host < 0;
      at(move.to) = move.expert;
      if (move.saved_to >= 0) host[move.saved_to] = displaced;
    }
    read += read_now;
    CHECK(tiers.found() == found);
    CHECK(tiers.wanted() == std::ssize(set));
    CHECK(tiers.read() == read_now);
    for (int e = 0; e < experts; ++e) {
      const ExpertPlace place = tiers.place_of(e);
      if (place.tier != Tier::file) CHECK(at(place) == e);
      if (set.contains(e)) CHECK(place.tier != Tier::file);
    }
    // Experts in memory are dropped only for lack of room.
    for (const int e : set)
      if (before.contains(e)) CHECK(in_memory().contains(e));
    const int64_t room = std::ssize(slots) + std::ssize(host);
    if (room >= experts) CHECK(std::ranges::includes(in_memory(), before));
    const auto on_gpu = std::ranges::count_if(set, [&](int e) { return tiers.place_of(e).tier == Tier::gpu; });
    CHECK(on_gpu == std::min(std::ssize(set), std::ssize(slots)));
  }
};

} // namespace

TEST_CASE("expert tiers: every wanted expert has a place after the moves, whatever there is room for") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  constexpr int kExperts = 24;
  for (const int slots : {0, 1, 3, 8, 20, 24})
    for (const int host : {0, 1, 5, 12, 23}) {
      CAPTURE(slots);
      CAPTURE(host);
      Layer layer(kExperts, slots, host, std::max(0, kExperts - slots - host));
      for (int step = 0; step < 120; ++step) {
        std::vector<int32_t> wanted(step % 13 == 12 ? 100 : 1 + random() % 4);
        const int among = step % 3 == 0 ? kExperts : 9;
        for (int32_t& e : wanted) e = static_cast<int32_t>(random() % among);
        layer.use(wanted);
      }
    }
}

TEST_CASE("expert tiers: slots and the host's memory together hold as many experts as they have places") {
  Layer layer(32, 10, 14, 8);
  for (int round = 0; round < 3; ++round)
    for (int32_t e = 0; e < 24; ++e) layer.use({e});
  CHECK(layer.read == 24);
  CHECK(layer.in_memory().size() == 24);
  Layer whole(32, 10, 22, 0);
  for (int round = 0; round < 3; ++round)
    for (int32_t e = 0; e < 32; ++e) whole.use({e});
  CHECK(whole.read == 32);
}

TEST_CASE("expert tiers: what is used most stays when everything else is wanted once") {
  Layer layer(64, 4, 8, 52);
  for (int step = 0; step < 60; ++step) layer.use({step % 8, (step + 3) % 8});
  for (int32_t e = 20; e < 64; ++e) layer.use({e});
  for (int e = 0; e < 8; ++e) CHECK(layer.in_memory().contains(e));
  std::vector<int32_t> all(64);
  for (int32_t e = 0; e < 64; ++e) all[e] = e;
  layer.use(all);
  const int64_t read = layer.read;
  for (int step = 0; step < 8; ++step) layer.use({step});
  CHECK(layer.read == read);
}

TEST_CASE("experts' sizes: as many copies as have room, and spill places in a quarter of it") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 300; ++i) {
    std::vector<kernels::cuda::ExpertGroup> groups(2 + random() % 60);
    const auto experts = static_cast<int64_t>(1 + random() % 256);
    for (kernels::cuda::ExpertGroup& group : groups) {
      group.experts = experts;
      group.block_bytes = static_cast<int64_t>(256 * (20 + random() % 10));
    }
    const kernels::cuda::ExpertSizes sizes = kernels::cuda::expert_sizes(groups);
    const auto room = static_cast<int64_t>(random() % (sizes.all_bytes * 5 / 4));
    const int64_t copies = sizes.copies_in(room, experts), spilled = sizes.spill_places(copies, experts);
    CHECK(sizes.gpu_bytes(copies, experts) <= room);
    if (copies < experts) CHECK(sizes.gpu_bytes(copies + 1, experts) > room);
    CHECK(copies + spilled <= experts);
    CHECK(spilled * sizes.largest_block * 4 <= sizes.gpu_bytes(copies, experts));
    if (copies + spilled < experts) CHECK((spilled + 1) * sizes.largest_block * 4 > sizes.gpu_bytes(copies, experts));
    CHECK(sizes.gpu_bytes(0, experts) == 0);
  }
}
