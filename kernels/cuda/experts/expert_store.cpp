#include "kernels/cuda/experts/expert_store.h"

#include "core/error.h"

#include <algorithm>
#include <array>

namespace ridge::kernels::cuda {

ExpertStore::ExpertStore(const core::Program& program, std::vector<ExpertGroup> groups, double host_limit,
                         bool planned_only, int sm_count)
    : groups_(std::move(groups)), sizes_(expert_sizes(groups_)),
      host_places_(host_limit < 0 ? sizes_.experts : sizes_.host_places(host_limit)),
      table_bytes_(expert_table_bytes(groups_, sm_count)) {
  if (planned_only || groups_.empty()) return;
  if (host_places_ == sizes_.experts) try {
      for (const ExpertGroup& group : groups_) host_.emplace_back(group.experts * group.block_bytes);
      return;
    } catch (const Error&) {
      host_.clear();
      cudaGetLastError(); // clears the error
      host_limit = static_cast<double>(sizes_.all_bytes) * 3 / 4;
    }
  filed_ = std::make_unique<FiledExperts>(program, groups_, static_cast<int64_t>(host_limit));
  host_places_ = filed_->host_places();
}

bool ExpertStore::take_slots(int64_t bytes, int64_t most, const Launch& launch) {
  if (groups_.empty()) return true;
  int64_t slots = sizes_.copies_in(bytes, host_places_);
  if (slots < 0) return false;
  if (most >= 0) slots = std::min(slots, most);
  if (host_.empty() && !filed_) return true; // planned only
  tables_ = DeviceMemory(table_bytes_, "experts' tables");
  RIDGE_CUDA(cudaMemsetAsync(tables_.as(), 0, table_bytes_, launch.stream));
  if (filed_)
    filed_->take_slots(slots, tables_.as(), launch);
  else
    make_tables(slots, launch);
  return true;
}

void ExpertStore::make_tables(int64_t slots, const Launch& launch) {
  const int64_t spill_places = sizes_.spill_places(slots, host_places_);
  slots_ = DeviceMemory(slot_bytes(groups_, slots), "experts");
  if (slots_.bytes() > 0) RIDGE_CUDA(cudaMemsetAsync(slots_.as(), 0, slots_.bytes(), launch.stream));
  spill_ = DeviceMemory(spill_places * sizes_.largest_block, "experts");
  uint8_t *slot = slots_.as(), *table = tables_.as() + kExpertAligned; // after the statistics
  const auto take = [&]<typename T>(T*& to, int64_t count) {
    to = reinterpret_cast<T*>(table);
    table += expert_aligned(count * static_cast<int64_t>(sizeof(T)));
  };
  for (size_t g = 0; g < groups_.size(); ++g) {
    const ExpertGroup& group = groups_[g];
    ExpertCacheArgs args = {};
    args.host = host_[g].as();
    args.cached = slot;
    args.block_bytes = group.block_bytes;
    args.experts = static_cast<int>(group.experts);
    args.slots = static_cast<int>(std::min(slots, group.experts));
    args.spill = spill_.as();
    args.spill_places = static_cast<int>(spill_places);
    take(args.places, group.experts);
    take(args.slot_of, group.experts);
    take(args.expert_in, group.experts);
    take(args.heat, group.experts);
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
  if (filed_) return filed_->use();
  if (args_.empty()) return {};
  std::array<uint64_t, 2> counts;
  RIDGE_CUDA(cudaMemcpy(counts.data(), tables_.as(), sizeof counts, cudaMemcpyDeviceToHost));
  return {args_[0].experts, args_[0].slots, args_[0].experts, static_cast<int64_t>(counts[0]),
          static_cast<int64_t>(counts[1])};
}

ExpertStore::Place ExpertStore::place(core::WeightId id) const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto at = std::ranges::find(groups_[g].weights, id) - groups_[g].weights.begin();
    if (at == std::ssize(groups_[g].weights)) continue;
    uint8_t* first = filed_ ? filed_->base(g) : host_.empty() ? nullptr : host_[g].as();
    return {first ? first + groups_[g].offsets[at] : nullptr, groups_[g].block_bytes};
  }
  return {};
}

int64_t ExpertStore::group_of(core::ValueId ids) const {
  const auto group = std::ranges::find(groups_, ids, &ExpertGroup::ids);
  return group == groups_.end() ? -1 : group - groups_.begin();
}

void ExpertStore::ask_cpu(core::ValueId ids, const CpuExpertArgs& cpu) { args_.at(group_of(ids)).cpu = cpu; }

double ExpertStore::measure_copy(const Launch& launch) const {
  const ExpertCacheArgs& layer = args_.front();
  const TimedEvent start, end;
  for (int run = 0; run < 2; ++run) { // warm-up
    start.record(launch.stream);
    for (int e = 0; e < layer.experts; ++e)
      RIDGE_CUDA(cudaMemcpyAsync(layer.cached, layer.host + e * layer.block_bytes, layer.block_bytes,
                                 cudaMemcpyHostToDevice, launch.stream));
    end.record(launch.stream);
    RIDGE_CUDA(cudaStreamSynchronize(launch.stream));
  }
  return end.seconds_since(start) / layer.experts;
}

const ExpertCacheArgs* ExpertStore::of_ids(core::ValueId ids) const {
  const int64_t g = group_of(ids);
  return g < 0 || args_.empty() ? nullptr : &args_[g];
}

const int64_t* ExpertStore::places(core::ValueId ids) const {
  const int64_t g = group_of(ids);
  if (g < 0) return nullptr;
  return filed_ ? filed_->places(g) : args_.empty() ? nullptr : args_[g].places;
}

} // namespace ridge::kernels::cuda
