#include "kernels/cuda/experts/expert_store.h"

#include "core/error.h"
#include "core/strings/units.h"

#include <algorithm>
#include <array>

namespace ridge::kernels::cuda {
namespace {

constexpr size_t kAligned = 256;

size_t aligned(size_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

} // namespace

ExpertStore::ExpertStore(std::vector<ExpertGroup> groups, bool planned_only, int sm_count)
    : groups_(std::move(groups)), table_bytes_(expert_table_bytes(groups_, sm_count)) {
  if (planned_only) return;
  try {
    for (const ExpertGroup& group : groups_) host_.emplace_back(group.experts * group.block_bytes);
  } catch (const Error&) {
    throw_error("CUDA: the experts would take {} of page-locked host memory, and there is less",
                core::human_bytes(static_cast<double>(host_bytes())));
  }
}

int64_t ExpertStore::host_bytes() const {
  int64_t bytes = 0;
  for (const ExpertGroup& group : groups_) bytes += group.experts * group.block_bytes;
  return bytes;
}

// One allocation for all slots, one for all tables.
void ExpertStore::take_slots(int64_t bytes, int64_t most, const Launch& launch) {
  if (host_.empty()) return;
  int64_t most_experts = 0, of_all_layers = 0;
  for (const ExpertGroup& group : groups_) {
    most_experts = std::max(most_experts, group.experts);
    of_all_layers += group.block_bytes;
  }
  const int64_t slots =
      std::clamp<int64_t>(bytes / of_all_layers, 0, most < 0 ? most_experts : std::min(most, most_experts));
  int64_t slot_bytes = 0;
  for (const ExpertGroup& group : groups_) slot_bytes += std::min(slots, group.experts) * group.block_bytes;
  slots_ = DeviceMemory(slot_bytes, "experts");
  tables_ = DeviceMemory(table_bytes_, "experts' tables");
  RIDGE_CUDA(cudaMemsetAsync(tables_.as(), 0, table_bytes_, launch.stream));

  uint8_t *slot = slots_.as(), *table = tables_.as() + kAligned; // behind the statistics
  const auto take = [&]<typename T>(T*& to, int64_t count) {
    to = reinterpret_cast<T*>(table);
    table += aligned(count * sizeof(T));
  };
  for (size_t g = 0; g < groups_.size(); ++g) {
    const ExpertGroup& group = groups_[g];
    ExpertCacheArgs args = {};
    args.host = host_[g].as();
    args.cached = slot;
    args.block_bytes = group.block_bytes;
    args.experts = static_cast<int>(group.experts);
    args.slots = static_cast<int>(std::min(slots, group.experts));
    take(args.places, group.experts);
    take(args.slot_of, group.experts);
    take(args.expert_in, group.experts);
    take(args.used_in, group.experts);
    take(args.copies, group.experts);
    take(args.steps, launch.sm_count);
    take(args.published, 1);
    args.statistics = tables_.as<uint64_t>();
    slot += args.slots * group.block_bytes;
    launch_clear_experts(launch, args);
    args_.push_back(args);
  }
}

core::ExpertUse ExpertStore::use() const {
  if (args_.empty()) return {};
  std::array<uint64_t, 2> counts;
  RIDGE_CUDA(cudaMemcpy(counts.data(), tables_.as(), sizeof counts, cudaMemcpyDeviceToHost));
  return {args_[0].experts, args_[0].slots, static_cast<int64_t>(counts[0]), static_cast<int64_t>(counts[1])};
}

ExpertStore::Place ExpertStore::place(core::WeightId id) const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto at = std::ranges::find(groups_[g].weights, id) - groups_[g].weights.begin();
    if (at == std::ssize(groups_[g].weights)) continue;
    return {host_.empty() ? nullptr : host_[g].as() + groups_[g].offsets[at], groups_[g].block_bytes};
  }
  return {};
}

const ExpertCacheArgs* ExpertStore::of_ids(core::ValueId ids) const {
  for (size_t g = 0; g < args_.size(); ++g)
    if (groups_[g].ids == ids) return &args_[g];
  return nullptr;
}

} // namespace ridge::kernels::cuda
