#include "kernels/cuda/plan/expert_tiers.h"

#include "kernels/cuda/plan/expert_groups.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace ridge::kernels::cuda {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity(); // as a cost: the place must stay

} // namespace

ExpertTiers::ExpertTiers(int experts, int slots, int host_places, int spill_places)
    : experts_(experts), in_slot_(slots, -1), in_host_(host_places, -1), spill_places_(spill_places) {
  if (slots + host_places + spill_places < experts) throw std::logic_error("missing places for experts");
}

ExpertPlace ExpertTiers::place_of(int e) const {
  const Expert& expert = experts_[e];
  if (expert.slot >= 0) return {Tier::gpu, expert.slot};
  if (expert.host >= 0) return {Tier::host, expert.host};
  if (expert.spill >= 0) return {Tier::spill, expert.spill};
  return {};
}

void ExpertTiers::warm(Expert& expert) const {
  const double now = static_cast<double>(step_) / kUsesHalfLife;
  expert.heat = now + std::log2(1 + std::exp2(expert.heat - now));
}

std::span<const ExpertMove> ExpertTiers::place_experts(std::span<const int32_t> wanted) {
  ++step_;
  moves_.clear();
  found_ = wanted_count_ = read_ = spilled_ = 0;
  for (Expert& expert : experts_) {
    expert.spill = -1;
    expert.wanted = false;
  }
  for (const int32_t e : wanted) {
    Expert& expert = experts_[e];
    if (expert.wanted) continue;
    expert.wanted = true;
    warm(expert);
    ++wanted_count_;
    found_ += expert.slot >= 0;
  }
  const int count = static_cast<int>(experts_.size());
  for (int e = 0; e < count; ++e) {
    if (!experts_[e].wanted || experts_[e].slot >= 0) continue;
    const int slot = slot_to_take();
    if (slot < 0) break;
    bring_to_gpu(e, slot);
  }
  for (int e = 0; e < count; ++e)
    if (experts_[e].wanted && place_of(e).tier == Tier::file) bring_anywhere(e);
  return moves_;
}

// An empty place, otherwise the one whose expert has the least cost; -1 if no cost is finite.
int ExpertTiers::cheapest(const std::vector<int>& places, const auto& cost_of) const {
  int best = -1;
  double least = kInfinite;
  for (int place = 0; place < static_cast<int>(places.size()); ++place) {
    if (places[place] < 0) return place;
    if (const double cost = cost_of(experts_[places[place]]); cost < least) least = cost, best = place;
  }
  return best;
}

// Empty, or of the coldest unwanted expert; -1: none.
int ExpertTiers::slot_to_take() const {
  return cheapest(in_slot_, [](const Expert& expert) { return expert.wanted ? kInfinite : expert.heat; });
}

// Empty, or of the hottest expert on the GPU, which stays there longest; -1: none.
int ExpertTiers::spare_host_place() const {
  return cheapest(in_host_, [](const Expert& expert) { return expert.slot >= 0 ? -expert.heat : kInfinite; });
}

// Spare, or of the coldest unwanted expert below `heat`; -1: none.
int ExpertTiers::host_place_to_take(double heat) const {
  if (const int spare = spare_host_place(); spare >= 0) return spare;
  return cheapest(in_host_,
                  [&](const Expert& expert) { return !expert.wanted && expert.heat < heat ? expert.heat : kInfinite; });
}

void ExpertTiers::bring_to_gpu(int e, int slot) {
  Expert& expert = experts_[e];
  ExpertMove move{e, expert.host, {Tier::gpu, slot}};
  read_ += expert.host < 0;
  const int before = std::exchange(in_slot_[slot], e);
  expert.slot = slot;
  if (before >= 0) {
    Expert& leaving = experts_[before];
    leaving.slot = -1;
    if (leaving.host < 0) move.saved_to = host_place_to_take(leaving.heat);
    if (move.saved_to >= 0) {
      if (const int dropped = std::exchange(in_host_[move.saved_to], before); dropped >= 0) experts_[dropped].host = -1;
      leaving.host = move.saved_to;
    }
  }
  moves_.push_back(move);
}

// Without a slot. Stays in host memory if that evicts no expert.
void ExpertTiers::bring_anywhere(int e) {
  int place = spare_host_place();
  ++read_;
  if (place < 0 && spilled_ < spill_places_) {
    experts_[e].spill = spilled_++;
    moves_.push_back({e, -1, {Tier::spill, experts_[e].spill}});
    return;
  }
  if (place < 0) place = host_place_to_take(kInfinite);
  if (place < 0) throw std::logic_error("an expert without a place");
  if (const int dropped = std::exchange(in_host_[place], e); dropped >= 0) experts_[dropped].host = -1;
  experts_[e].host = place;
  moves_.push_back({e, -1, {Tier::host, place}});
}

} // namespace ridge::kernels::cuda
