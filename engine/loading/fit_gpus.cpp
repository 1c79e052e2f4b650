#include "engine/loading/fit_gpus.h"

#include "engine/loading/ranks.h"

#include <algorithm>

namespace ridge::engine {

SharingPlan::SharingPlan(const core::Program& program, std::vector<int> gpus, int stages)
    : program_(&program), gpus_(std::move(gpus)), stages_(stages) {}

const std::vector<SharingPlan::Part>& SharingPlan::parts() const {
  if (!parts_.empty()) return parts_;
  const int each = static_cast<int>(gpus_.size()) / stages_;
  std::vector<core::Program> stages = core::pipeline_parts(*program_, stages_);
  for (int stage = 0; stage < stages_; ++stage)
    for (int rank = 0; rank < each; ++rank) {
      const core::Program& whole = stages[stage];
      RankFit place{.gpu = gpus_[stage * each + rank], .stages = stages_, .rank = rank, .ranks = each};
      place.first_layer = stage == 0 ? 0 : core::layer_count(stages[stage - 1]);
      place.end_layer = core::layer_count(whole) + (stage == stages_ - 1); // counting the output
      parts_.push_back({each == 1 ? whole : shard(whole, rank, each, true).program, place, stage});
    }
  return parts_;
}

std::vector<RankFit> SharingPlan::ranks(const core::ExecutorConfig& config, const Room& room) const {
  std::vector<RankFit> found;
  for (const Part& part : parts()) {
    RankFit own = part.place;
    own.need = gpu_need(part.program, core::config_of_part(part.program, config), room.limits);
    own.room = room.gpus[own.gpu];
    found.push_back(own);
  }
  return found;
}

double SharingPlan::bytes(const core::ExecutorConfig& config, int64_t past) const {
  std::vector<double> most(static_cast<size_t>(stages_), 0);
  for (const Part& part : parts()) {
    double& stage = most[part.stage];
    stage = std::max(stage, token_bytes(part.program, config, past));
  }
  double sum = 0;
  for (const double stage : most) sum += stage;
  return sum;
}

bool have_room(const std::vector<RankFit>& ranks) {
  return std::ranges::all_of(ranks,
                             [](const RankFit& rank) { return static_cast<double>(rank.need.total()) <= rank.room; });
}

SharingCandidates sharing_candidates(const core::Program& program, const Room& room, const Placement& wanted) {
  SharingCandidates found;
  if (room.gpus.empty() || wanted.gpu_layers >= 0 || wanted.experts_on_host) return found;
  const int ranks = ranks_in_all(wanted);
  const std::vector<int> gpus = gpus_to_use(wanted.gpus, ranks, static_cast<int>(room.gpus.size()));
  if (gpus.size() < 2) return found;
  if (ranks > 0 || !wanted.gpus.empty()) {
    found.only = true;
    found.ways.emplace_back(program, gpus, wanted.stages);
    return found;
  }
  for (auto end = gpus.begin() + 2; end <= gpus.end(); ++end)
    found.ways.emplace_back(program, std::vector<int>(gpus.begin(), end), 1);
  return found;
}

} // namespace ridge::engine
